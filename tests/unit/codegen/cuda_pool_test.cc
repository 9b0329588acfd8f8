// SPDX-License-Identifier: Apache-2.0
// Max pooling on CUDA: vectors across the channels of channels-last images, windows and what covers
// an element unrolled, and a backward step that reads a byte for each window.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/kernel_ir.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace cuda_pool_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DType kI64 = v1::DTYPE_INT64, kU8 = v1::DTYPE_UINT8;
constexpr bool kChannelsLast = true, kRowMajor = false;

struct Window {
  int kernel, stride, padding = 0, dilation = 1;
  int Of(int size) const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  std::vector<Arg> Arguments() const {
    return {Ints({kernel, kernel}), Ints({stride, stride}), Ints({padding, padding}),
            Ints({dilation, dilation}), false};
  }
};

struct Pooling {
  int count, channels, rows, columns;
  Window window;
  v1::DType dtype = kBF16;
  bool channels_last = kChannelsLast;

  v1::TensorMeta Image(const GraphBuilder& g) const { return Plane(g, rows, columns, dtype); }
  v1::TensorMeta Result(const GraphBuilder& g, v1::DType type) const {
    return Plane(g, window.Of(rows), window.Of(columns), type);
  }
  v1::TensorMeta Result(const GraphBuilder& g) const { return Result(g, dtype); }

 private:
  v1::TensorMeta Plane(const GraphBuilder& g, int h, int w, v1::DType type) const {
    const Shape sizes{count, channels, h, w};
    if (!channels_last) return g.Meta(sizes, type);
    return g.Meta(sizes, type, {channels * h * w, 1, channels * w, channels});
  }
};

GraphBuilder Forward(const std::string& op, const Pooling& p, v1::DType places) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  std::vector<Arg> arguments = p.window.Arguments();
  arguments.insert(arguments.begin(), g.Input(p.Image(g)));
  const Ref r = g.Node(op, arguments, {p.Result(g), p.Result(g, places)});
  g.Output(r).Output(r.result(1));
  return g;
}
GraphBuilder Offsets(const Pooling& p) {
  return Forward("tensord::max_pool2d_with_offsets", p, kU8);
}
GraphBuilder Indices(const Pooling& p) { return Forward("aten::max_pool2d_with_indices", p, kI64); }

// What comes before a pooling at inference: a bias and relu.
GraphBuilder OfRelu(const Pooling& p) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input(p.Image(g)), bias = g.Input({p.channels, 1, 1}, p.dtype);
  const Ref sum = g.Node("aten::add.Tensor", {x, bias, 1}, p.Image(g));
  std::vector<Arg> arguments = p.window.Arguments();
  arguments.insert(arguments.begin(), g.Node("aten::relu", {sum}, p.Image(g)));
  g.Output(g.Node("aten::max_pool2d_with_indices", arguments, {p.Result(g), p.Result(g, kI64)}));
  return g;
}

Ref Gradient(GraphBuilder& g, const Pooling& p, Ref grad, Ref offsets) {
  std::vector<Arg> arguments{grad, offsets, Ints({p.rows, p.columns})};
  for (const Arg& arg : p.window.Arguments()) arguments.push_back(arg);
  arguments.push_back(p.channels_last);
  return g.Node("tensord::max_pool2d_offsets_backward", arguments, p.Image(g));
}

GraphBuilder OffsetsBackward(const Pooling& p) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref grad = g.Input(p.Result(g)), offsets = g.Input(p.Result(g, kU8));
  g.Output(Gradient(g, p, grad, offsets));
  return g;
}

GraphBuilder IndicesBackward(const Pooling& p) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref grad = g.Input(p.Result(g)), image = g.Input(p.Image(g));
  const Ref indices = g.Input(p.Result(g, kI64));
  std::vector<Arg> arguments = p.window.Arguments();
  arguments.insert(arguments.begin(), {grad, image});
  arguments.push_back(indices);
  g.Output(g.Node("aten::max_pool2d_with_indices_backward", arguments, p.Image(g)));
  return g;
}

// The stem of a ResNet in backward: what the pooling gives goes through relu to the batch norm.
GraphBuilder Stem(const Pooling& p) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const v1::TensorMeta channel = g.Meta({p.channels}, p.dtype);
  const Ref grad = g.Input(p.Result(g)), offsets = g.Input(p.Result(g, kU8));
  const Ref y = g.Input(p.Image(g)), x = g.Input(p.Image(g));
  const Ref weight = g.Input(channel), mean = g.Input(channel), rstd = g.Input(channel);
  const Ref through =
      g.Node("aten::threshold_backward", {Gradient(g, p, grad, offsets), y, 0}, p.Image(g));
  const Ref r = g.Node(
      "aten::native_batch_norm_backward",
      {through, x, weight, nullptr, nullptr, mean, rstd, true, 1e-5, List({true, true, true})},
      {p.Image(g), channel, channel});
  g.Output(r).Output(r.result(1)).Output(r.result(2));
  return g;
}

constexpr Window kStem{.kernel = 3, .stride = 2, .padding = 1};

TEST(CudaPool, Forward) {
  ExpectPlansAndNumbers({
      {"stem", Offsets({2, 16, 12, 14, kStem}), {"elements w8 t256 g1 c0"}},
      {"odd sizes", Offsets({2, 16, 11, 13, kStem}), {"elements w8 t256 g1 c0"}},
      {"apart", Offsets({4, 64, 7, 9, {2, 3}}), {"elements w8 t256 g1 c0"}},
      {"dilated", Offsets({4, 32, 9, 9, {3, 1, 1, 2}}), {"elements w8 t256 g1 c0"}},
      {"largest", Offsets({2, 32, 9, 9, {5, 1, 2}, kF32}), {"elements w4 t256 g1 c0"}},
      {"indices", Indices({2, 16, 12, 14, kStem}), {"elements w2 t256 g1 c0"}},
      {"rows", Indices({2, 3, 12, 16, kStem, kF32, kRowMajor}), {"elements w2 t256 g1 c0"}},
      // The image is read once, and never stored.
      {"of relu", OfRelu({2, 16, 12, 14, kStem}), {"elements w8 t256 g1 c0"}},
  });
}

TEST(CudaPool, Backward) {
  std::vector<CudaCase> cases{
      {"stem", OffsetsBackward({2, 16, 12, 14, kStem}), {"elements w8 t256 g1 c0"}},
      {"odd sizes", OffsetsBackward({2, 8, 11, 13, kStem}), {"elements w8 t256 g1 c0"}},
      {"apart", OffsetsBackward({1, 8, 7, 9, {2, 3}}), {"elements w8 t256 g1 c0"}},
      {"dilated", OffsetsBackward({1, 8, 9, 9, {3, 1, 1, 2}}), {"elements w8 t256 g1 c0"}},
      {"rows", OffsetsBackward({2, 3, 12, 16, kStem, kF32, kRowMajor}), {"elements w4 t256 g1 c0"}},
      {"indices", IndicesBackward({2, 16, 12, 14, kStem}), {"elements w2 t256 g1 c0"}},
      {"batch norm",
       Stem({2, 64, 12, 14, kStem}),
       {"sweep w8 t256 g8 c1 column-tiles loops", "rows w8 t256 g8 c1 column-tiles loops"}},
  };
  for (CudaCase& c : cases) {
    c.slack = 5e-3;
    c.classes = 9;
  }
  ExpectPlansAndNumbers(cases);
}

// Loads across the channels are of 16 bytes, forward without conditions, and indices of eight bytes
// are nowhere.
TEST(CudaPool, MovesWholeVectorsOfWhatItNeeds) {
  const Pooling stem{2, 64, 12, 14, kStem};
  const auto forward = KernelsOf({"forward", Offsets(stem), {}});
  const auto backward = KernelsOf({"backward", OffsetsBackward(stem), {}});
  ASSERT_EQ(forward.size(), 1u);
  ASSERT_EQ(backward.size(), 1u);
  for (const auto& kernel : {forward[0], backward[0]}) {
    EXPECT_THAT(ToString(kernel), HasSubstr("W: int = 8"));
    EXPECT_EQ(CountBuffers(kernel, v1::DTYPE_UINT8), 1);
    EXPECT_EQ(CountBuffers(kernel, kI64), 0);
    EXPECT_THAT(CallsOf(kernel), Not(Contains(HasSubstr("gather"))));
    EXPECT_THAT(CallsOf(kernel), Not(Contains(HasSubstr("strided"))));
  }
  EXPECT_THAT(CallsOf(forward[0]), Not(Contains(HasSubstr("masked"))));
}

bool CallsLibrary(GraphBuilder g) {
  const auto graph = VerifiedImport(g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto program = compiler::LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  for (const compiler::Operation& operation : program->operations) {
    if (std::holds_alternative<compiler::ExternOp>(operation)) return true;
  }
  return false;
}

TEST(CudaPool, LargeWindowsStayTheLibrarys) {
  EXPECT_FALSE(CallsLibrary(Indices({1, 8, 9, 9, {5, 1, 2}})));
  EXPECT_TRUE(CallsLibrary(Indices({1, 8, 9, 9, {6, 1, 2}})));
  EXPECT_FALSE(CallsLibrary(IndicesBackward({1, 8, 9, 9, {5, 1, 2}})));
  // 25 elements in a window, but 81 windows over an element.
  EXPECT_TRUE(CallsLibrary(IndicesBackward({1, 8, 19, 19, {5, 1, 4, 2}})));
}

// On a CPU the library's backward step is faster.
TEST(CudaPool, BackwardIsGeneratedOnCudaAlone) {
  GraphBuilder g = IndicesBackward({1, 8, 9, 9, kStem});
  EXPECT_FALSE(CallsLibrary(g));
  for (v1::Input& input : *g.graph().mutable_inputs()) {
    input.mutable_tensor()->set_device(v1::DEVICE_TYPE_CPU);
  }
  for (v1::Node& node : *g.graph().mutable_nodes()) {
    for (v1::TensorMeta& meta : *node.mutable_outputs()) meta.set_device(v1::DEVICE_TYPE_CPU);
  }
  EXPECT_TRUE(CallsLibrary(g));
}

}  // namespace cuda_pool_test
}  // namespace tensord::testing
