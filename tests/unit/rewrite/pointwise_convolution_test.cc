// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/pointwise_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/decompose/lower_graph.h"
#include "compiler/rewrite/convolution_epilogues.h"
#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace pointwise_convolution_test {

using compiler::Graph;
using ::testing::ElementsAre;

struct Options {
  v1::DType dtype = v1::DTYPE_BFLOAT16;
  int channels = 8, outputs = 16, kernel = 1, stride = 1, padding = 0;
  bool bias = true, channels_last = true;
  Dim batch = 2;
};

// Convolutions over images of 3x3 pixels.
class Net {
 public:
  explicit Net(const Options& o = {}) : o(o) {
    x = g.Input(Meta(o.channels, 3));
    z = g.Input(Meta(o.outputs, pixels()));
    w = g.Input({o.outputs, o.channels, o.kernel, o.kernel}, o.dtype);
    b = g.Input({o.outputs}, o.dtype);
    wide = g.Input({o.outputs, o.channels, 3, 3}, o.dtype);
    around = g.Input({o.outputs, o.outputs, 3, 3}, o.dtype);
  }

  int pixels() const { return (3 + 2 * o.padding - o.kernel) / o.stride + 1; }
  v1::TensorMeta Meta(int channels, int n) const {
    const Shape sizes{o.batch, channels, n, n};
    return g.Meta(sizes, o.dtype, o.channels_last ? ChannelsLast(sizes) : Shape{});
  }
  v1::TensorMeta Out() const { return Meta(o.outputs, pixels()); }
  std::vector<Arg> Numbers() const {
    return {Ints({o.stride, o.stride}),
            Ints({o.padding, o.padding}),
            Ints({1, 1}),
            false,
            Ints({0, 0}),
            1};
  }
  Ref Conv() {
    std::vector<Arg> args{x, w, o.bias ? Arg(b) : Arg(nullptr)};
    for (const Arg& number : Numbers()) args.push_back(number);
    return g.Node("aten::convolution", args, Out());
  }
  Ref Relu(Ref t) { return g.Node("aten::relu", {t}, Out()); }
  Ref Add(Ref s, Ref t) { return g.Node("aten::add.Tensor", {s, t, 1}, Out()); }

  const Options o;
  GraphBuilder g;
  Ref x{0}, z{0}, w{0}, b{0}, wide{0}, around{0};
};

// The library calls behind epilogues and this pass, whose results must stay the same.
std::vector<std::string> Calls(Net& net, int count = 1) {
  const Graph before = Imported(net.g);
  Graph after = before;
  compiler::ConvolutionEpilogues(CudaTarget(), &after);
  EXPECT_EQ(compiler::PointwiseConvolution(CudaTarget(), &after), count);
  ExpectSameResults(before, after, SomeInputs(before), 0.02);
  const auto program = compiler::LowerGraph(after);
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<std::string> calls;
  for (const compiler::Operation& operation : program->operations) {
    const auto* call = std::get_if<compiler::ExternOp>(&operation);
    calls.push_back(call != nullptr ? call->op : "a kernel");
  }
  return calls;
}

TEST(PointwiseConvolutionTest, IsOneProductWithoutCopies) {
  Net plain({.bias = false});
  plain.g.Output(plain.Conv());
  EXPECT_THAT(Calls(plain), ElementsAre("aten::mm"));
  Net biased;
  biased.g.Output(biased.Conv());
  EXPECT_THAT(Calls(biased), ElementsAre("aten::addmm"));
  Net half({.dtype = v1::DTYPE_FLOAT16});
  half.g.Output(half.Conv());
  EXPECT_THAT(Calls(half), ElementsAre("aten::addmm"));
}

TEST(PointwiseConvolutionTest, TakesReluAndAResidualAlong) {
  Net relu;
  relu.g.Output(relu.Relu(relu.Conv()));
  EXPECT_THAT(Calls(relu), ElementsAre("aten::_addmm_activation"));
  Net residual;
  residual.g.Output(residual.Relu(residual.Add(residual.Conv(), residual.z)));
  // Which the runtime makes one.
  EXPECT_THAT(Calls(residual), ElementsAre("aten::addmm", "aten::add", "aten::relu"));
}

TEST(PointwiseConvolutionTest, RatherThanWhatItIsAddedTo) {
  Net net;
  const Ref conv = net.Conv();
  const Ref shortcut = net.g.Node(
      "aten::convolution",
      {net.x, net.wide, nullptr, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), 1},
      net.Out());
  net.g.Output(net.Relu(net.Add(conv, shortcut)));
  EXPECT_THAT(Calls(net),
              ElementsAre("aten::convolution", "aten::addmm", "aten::add", "aten::relu"));
}

TEST(PointwiseConvolutionTest, NotRatherThanWhatTheLibraryFuses) {
  // 12 channels are no whole vectors: only the other one can take the sum along.
  Net net({.channels = 12});
  const Ref conv = net.Conv();
  const Ref wide = net.g.Node("aten::convolution",
                              {net.z, net.around, nullptr, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}),
                               false, Ints({0, 0}), 1},
                              net.Out());
  net.g.Output(net.Relu(net.Add(wide, conv)));
  EXPECT_THAT(Calls(net, 0), ElementsAre("aten::convolution", "aten::cudnn_convolution_add_relu"));
}

// Of a call that a user wrote: with a factor, and with a number of images that is not known.
TEST(PointwiseConvolutionTest, ResidualsThatStayWithTheLibrary) {
  for (const bool symbolic : {false, true}) {
    GraphBuilder g;
    const Options o;
    const Dim n = symbolic ? g.Symbol(3) : Dim(3);
    const auto meta = [&](int channels) {
      const Shape sizes{n, channels, 3, 3};
      return g.Meta(sizes, o.dtype, ChannelsLast(sizes));
    };
    const Ref x = g.Input(meta(8)), z = g.Input(meta(16));
    const Ref w = g.Input({16, 8, 1, 1}, o.dtype), b = g.Input({16}, o.dtype);
    const Arg factor = symbolic ? Arg(nullptr) : Arg(2.0);
    g.Output(g.Node("aten::cudnn_convolution_add_relu",
                    {x, w, z, factor, b, Ints({1, 1}), Ints({0, 0}), Ints({1, 1}), 1}, meta(16)));
    Graph graph = Imported(g);
    EXPECT_EQ(compiler::PointwiseConvolution(CudaTarget(), &graph), 0);
  }
}

TEST(PointwiseConvolutionTest, OperandsAreInMemoryOnce) {
  Net net;
  // Computed images, read by two products and given out; a converted weight that is given out too.
  const Ref images = net.g.Node("aten::neg", {net.x}, net.Meta(8, 3));
  const Ref weight = net.g.Node("aten::neg", {net.w}, net.g.Meta({16, 8, 1, 1}, net.o.dtype));
  for (int i = 0; i < 2; ++i) {
    net.g.Output(net.g.Node("aten::convolution",
                            {images, weight, i == 0 ? Arg(net.b) : Arg(nullptr), Ints({1, 1}),
                             Ints({0, 0}), Ints({1, 1}), false, Ints({0, 0}), 1},
                            net.Out()));
  }
  net.g.Output(images).Output(weight);
  EXPECT_THAT(Calls(net, 2), ElementsAre("a kernel", "a kernel", "aten::addmm", "aten::mm"));
}

TEST(PointwiseConvolutionTest, BehindOneAnother) {
  Net net({.channels = 16});
  const auto conv = [&](Ref of, Ref weight) {
    return net.g.Node(
        "aten::convolution",
        {of, weight, net.b, Ints({1, 1}), Ints({0, 0}), Ints({1, 1}), false, Ints({0, 0}), 1},
        net.Out());
  };
  const Ref shortcut = conv(net.x, net.w), hidden = net.Relu(conv(net.x, net.w));
  net.g.Output(net.Relu(net.Add(conv(hidden, net.w), shortcut)));
  EXPECT_THAT(Calls(net, 3), ElementsAre("aten::mm", "aten::_addmm_activation", "a kernel",
                                         "aten::addmm", "aten::add", "aten::relu"));
}

TEST(PointwiseConvolutionTest, OfAnyNumberOfImages) {
  const Options o;
  GraphBuilder g;
  const Dim n = g.Symbol(3);
  const Shape in{n, 8, 3, 3}, out{n, 16, 3, 3};
  const Ref x = g.Input(g.Meta(in, o.dtype, ChannelsLast(in)));
  const Ref w = g.Input({16, 8, 1, 1}, o.dtype);
  g.Output(g.Node("aten::convolution",
                  {x, w, nullptr, Ints({1, 1}), Ints({0, 0}), Ints({1, 1}), false, Ints({0, 0}), 1},
                  g.Meta(out, o.dtype, ChannelsLast(out))));
  const Graph before = Imported(g);
  Graph after = before;
  EXPECT_EQ(compiler::PointwiseConvolution(CudaTarget(), &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 0.02);
}

// The gradients that `mask` asks for, of a weight with those strides.
std::vector<std::string> GradientCalls(const std::vector<bool>& mask, bool weight_last,
                                       const Options& o = {}, int count = 1) {
  Net net(o);
  const Shape weight{o.outputs, o.channels, o.kernel, o.kernel};
  const v1::TensorMeta metas[] = {
      net.Meta(o.channels, 3),
      net.g.Meta(weight, o.dtype, weight_last ? ChannelsLast(weight) : Shape{}),
      net.g.Meta({o.outputs}, o.dtype)};
  std::vector<Arg> args{net.z, net.x, net.w, Ints({o.outputs})};
  for (const Arg& number : net.Numbers()) args.push_back(number);
  args.push_back(List({mask[0], mask[1], mask[2]}));
  std::vector<v1::TensorMeta> results;
  for (int i = 0; i < 3; ++i) results.push_back(mask[i] ? metas[i] : v1::TensorMeta());
  const Ref all = net.g.Node("aten::convolution_backward", args, results);
  for (int i = 0; i < 3; ++i) {
    if (mask[i]) net.g.Output(all.result(i));
  }
  return Calls(net, count);
}

TEST(PointwiseConvolutionTest, GradientsAreProductsToo) {
  EXPECT_THAT(GradientCalls({true, true, false}, false), ElementsAre("aten::mm", "aten::mm"));
  EXPECT_THAT(GradientCalls({true, true, false}, true), ElementsAre("aten::mm", "aten::mm"));
  EXPECT_THAT(GradientCalls({false, true, false}, false), ElementsAre("aten::mm"));
  EXPECT_THAT(GradientCalls({true, true, true}, false),
              ElementsAre("aten::mm", "aten::mm", "a kernel"));
}

TEST(PointwiseConvolutionTest, OnlyOfSinglePixelsInRowsOfVectors) {
  const auto stays = [](const Options& o) {
    Net net(o);
    net.g.Output(net.Conv());
    EXPECT_THAT(Calls(net, 0), ElementsAre("aten::convolution"));
  };
  stays({.kernel = 3});
  stays({.stride = 2});
  stays({.padding = 1});
  stays({.channels = 4});
  stays({.outputs = 12});
  stays({.channels_last = false});
  stays({.dtype = v1::DTYPE_FLOAT32});
  EXPECT_THAT(GradientCalls({true, true, false}, false, {.stride = 2}, 0),
              ElementsAre("aten::convolution_backward"));
}

}  // namespace pointwise_convolution_test
}  // namespace tensord::testing
