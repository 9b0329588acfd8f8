// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/space_to_depth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace space_to_depth_test {

using compiler::Graph;
using compiler::SpaceToDepth;
using compiler::SpaceToDepthCosts;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr auto kHalf = v1::DTYPE_BFLOAT16;
// Small convolutions pay, so that the interpreter is quick.
constexpr SpaceToDepthCosts kAlways{.least_gain = -1e9};

struct Pair {
  int height, width;
};

struct Options {
  int channels = 3;
  Pair size{9, 11}, kernel{3, 3}, stride{2, 2}, padding{1, 1};
  bool bias = true;
  bool channels_last = true;
  int groups = 1, dilation = 1, filters = 8;
  v1::DType dtype = kHalf;
  Dim batch = 2;
};

Ref Converted(GraphBuilder& g, Ref value, const v1::TensorMeta& meta) {
  return g.Node("prims::convert_element_type", {value, meta.dtype()}, meta);
}

// A convolution of a float32 image, as autocast has it, and a ReLU.
void Make(GraphBuilder& g, const Options& o) {
  const auto results = [&](int size, int kernel, int stride, int padding) {
    return (size + 2 * padding - o.dilation * (kernel - 1) - 1) / stride + 1;
  };
  const Shape sizes{o.batch, o.channels, o.size.height, o.size.width};
  const Shape filter{o.filters, o.channels / o.groups, o.kernel.height, o.kernel.width};
  const Shape out{o.batch, o.filters,
                  results(o.size.height, o.kernel.height, o.stride.height, o.padding.height),
                  results(o.size.width, o.kernel.width, o.stride.width, o.padding.width)};
  const auto meta = [&](const Shape& s) {
    return g.Meta(s, o.dtype, o.channels_last ? ChannelsLast(s) : Shape{});
  };
  const Ref x = g.Input(sizes), w = g.Input(filter), b = g.Input({o.filters}, o.dtype);
  const Ref y = g.Node(
      "aten::convolution",
      {Converted(g, x, meta(sizes)), Converted(g, w, meta(filter)), o.bias ? Arg(b) : Arg(nullptr),
       Ints({o.stride.height, o.stride.width}), Ints({o.padding.height, o.padding.width}),
       Ints({o.dilation, o.dilation}), false, Ints({0, 0}), o.groups},
      meta(out));
  g.Output(g.Node("aten::relu", {y}, meta(out)));
}

// Rewrites it and compares the results; gives the number of convolutions that changed.
int Moved(const Options& o, Graph* graph = nullptr) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Make(g, o);
  const Graph before = Imported(g);
  Graph after = before;
  const int count = SpaceToDepth(kAlways, &after);
  ExpectSameResults(before, after, SomeInputs(before), 0.01);
  if (graph != nullptr) *graph = after;
  return count;
}

std::vector<int64_t> SizesOf(const Graph& graph, const compiler::ArgumentValue& arg) {
  std::vector<int64_t> sizes;
  for (const auto& size : graph.TypeOf(arg.value, arg.output).sizes) {
    sizes.push_back(sym::Hint(size));
  }
  return sizes;
}

std::vector<int64_t> NumbersOf(const compiler::ArgumentValue& list) {
  std::vector<int64_t> numbers;
  for (const auto& item : list.items) numbers.push_back(*item.integer.AsConstant());
  return numbers;
}

TEST(SpaceToDepthTest, IsAConvolutionOverBlocks) {
  Graph graph;
  ASSERT_EQ(Moved({.size = {14, 12}, .kernel = {7, 7}, .padding = {3, 3}}, &graph), 1);
  const compiler::Node& node = NodeOf(graph, "aten::convolution");
  EXPECT_THAT(SizesOf(graph, node.args[0]), ElementsAre(2, 16, 10, 9));
  EXPECT_THAT(SizesOf(graph, node.args[1]), ElementsAre(8, 16, 4, 4));
  EXPECT_THAT(NumbersOf(node.args[3]), ElementsAre(1, 1));
  EXPECT_THAT(NumbersOf(node.args[4]), ElementsAre(0, 0));
}

TEST(SpaceToDepthTest, ReadsImageAndFilterOnce) {
  Graph graph;
  ASSERT_EQ(Moved({}, &graph), 1);
  const auto program = compiler::LowerGraph(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  // One copy each, with the conversion; the convolution; the ReLU.
  EXPECT_EQ(program->operations.size(), 4u);
}

TEST(SpaceToDepthTest, OfAnyShape) {
  const Options shapes[] = {
      {.size = {8, 8}, .kernel = {3, 3}, .padding = {0, 0}},
      {.size = {9, 8}, .kernel = {3, 3}, .padding = {1, 1}},
      {.size = {15, 13}, .kernel = {7, 7}, .padding = {3, 3}},
      {.size = {14, 13}, .kernel = {7, 5}, .padding = {3, 2}},
      {.size = {10, 11}, .kernel = {4, 4}, .padding = {1, 1}},
      {.size = {11, 10}, .kernel = {6, 6}, .padding = {2, 2}},
      {.size = {23, 22}, .kernel = {11, 11}, .stride = {4, 4}, .padding = {2, 2}},
      {.size = {13, 17}, .kernel = {5, 4}, .stride = {3, 2}, .padding = {0, 3}},
      {.size = {13, 13}, .kernel = {5, 5}, .stride = {3, 3}, .padding = {1, 1}},
      {.channels = 1, .size = {12, 9}, .kernel = {3, 5}, .stride = {2, 4}, .padding = {1, 4}},
      {.channels = 2, .size = {9, 9}, .kernel = {5, 3}, .padding = {4, 2}},
      {.channels = 4, .size = {9, 9}, .kernel = {3, 3}, .padding = {5, 1}},
      // Pixels that no window reaches; one window only.
      {.size = {12, 15}, .kernel = {5, 5}, .stride = {4, 4}, .padding = {0, 0}},
      {.size = {3, 4}, .kernel = {3, 3}, .padding = {0, 0}},
      {.bias = false, .dtype = v1::DTYPE_FLOAT16},
      {.batch = 1},
  };
  for (const Options& shape : shapes) {
    SCOPED_TRACE(::testing::Message()
                 << shape.channels << " channels of " << shape.size.height << "x"
                 << shape.size.width << ", kernel " << shape.kernel.height << "x"
                 << shape.kernel.width << ", stride " << shape.stride.height << "x"
                 << shape.stride.width);
    EXPECT_EQ(Moved(shape), 1);
  }
}

TEST(SpaceToDepthTest, OfAnyNumberOfImages) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Make(g, {.batch = g.Symbol(3)});
  const Graph before = Imported(g);
  Graph after = before;
  EXPECT_EQ(SpaceToDepth(kAlways, &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 0.01);
}

TEST(SpaceToDepthTest, KeepsThePromisedLayout) {
  Graph graph;
  EXPECT_EQ(Moved({.channels_last = false}, &graph), 1);
  // Three copies: the image, the filter, and the result in rows again.
  EXPECT_THAT(OpsOf(graph), Contains("aten::clone").Times(3));
  EXPECT_EQ(Moved({.channels_last = true}, &graph), 1);
  EXPECT_THAT(OpsOf(graph), Contains("aten::clone").Times(2));
}

TEST(SpaceToDepthTest, LeavesOthersAlone) {
  EXPECT_EQ(Moved({.channels = 5}), 0);
  EXPECT_EQ(Moved({.dtype = v1::DTYPE_FLOAT32}), 0);
  EXPECT_EQ(Moved({.stride = {1, 2}}), 0);
  EXPECT_EQ(Moved({.kernel = {2, 3}}), 0);
  EXPECT_EQ(Moved({.channels = 4, .groups = 2}), 0);
  EXPECT_EQ(Moved({.dilation = 2}), 0);
  EXPECT_EQ(Moved({.filters = 6}), 0);
}

// The first convolution of a ResNet.
int MovedOfBatch(const Dim& batch, Pair kernel = {7, 7}, Pair size = {224, 224}) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Make(g, {.size = size,
           .kernel = kernel,
           .padding = {kernel.height / 2, kernel.width / 2},
           .filters = 64,
           .batch = batch});
  Graph graph = Imported(g);
  return SpaceToDepth(CudaTarget(), &graph);
}

TEST(SpaceToDepthTest, OnlyWhereItPays) {
  EXPECT_EQ(MovedOfBatch(64), 1);
  EXPECT_EQ(MovedOfBatch(64, {3, 3}), 1);
  EXPECT_EQ(MovedOfBatch(1), 0);
  EXPECT_EQ(MovedOfBatch(64, {7, 7}, {32, 32}), 0);
}

// ---- Beside the other passes

class Stem {
 public:
  // A captured first layer: row-major, as float32 with autocast to bfloat16.
  explicit Stem(const Shape& image = {8, 3, 224, 224}) {
    const Shape out{image[0], 64, 112, 112};
    x = g.Input(image);
    w = g.Input({64, 3, 7, 7});
    for (Ref* vector : {&mean, &variance, &gamma, &beta}) *vector = g.Input({64});
    const Ref half = Converted(g, x, g.Meta(image, kHalf));
    const Ref filter = Converted(g, w, g.Meta({64, 3, 7, 7}, kHalf));
    const Ref y = g.Node(
        "aten::convolution",
        {half, filter, nullptr, Ints({2, 2}), Ints({3, 3}), Ints({1, 1}), false, Ints({0, 0}), 1},
        g.Meta(out, kHalf));
    const Ref norm = g.Node("aten::_native_batch_norm_legit_no_training",
                            {y, gamma, beta, mean, variance, 0.1, 1e-5},
                            {g.Meta(out, kHalf), g.Meta({0}), g.Meta({0})});
    relu = g.Node("aten::relu", {norm.result(0)}, g.Meta(out, kHalf));
    pooled = g.Node(
        "aten::max_pool2d_with_indices",
        {relu, Ints({3, 3}), Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), false},
        {g.Meta({image[0], 64, 56, 56}, kHalf), g.Meta({image[0], 64, 56, 56}, v1::DTYPE_INT64)});
  }

  GraphBuilder g{v1::DEVICE_TYPE_CUDA};
  Ref x{0}, w{0}, mean{0}, variance{0}, gamma{0}, beta{0}, relu{0}, pooled{0};
};

TEST(SpaceToDepthTest, TheFirstLayerOfANetworkIsOneCall) {
  Stem stem;
  stem.g.Output(stem.pooled);
  Graph graph = Imported(stem.g);
  std::vector<std::string> notes = RunRewrites(CudaTarget(), &graph);
  EXPECT_THAT(
      notes, IsSupersetOf({"fold_batch_norm: 1", "space_to_depth: 1", "convolution_epilogues: 1"}));
  EXPECT_THAT(OpsOf(graph), Contains("aten::cudnn_convolution_relu").Times(1));
  EXPECT_THAT(OpsOf(graph), Not(Contains("aten::convolution")));
  const auto program = compiler::LowerGraph(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  // In front of the call: the image, the filter and the bias.
  int kernels = 0;
  for (const auto& operation : program->operations) {
    if (std::holds_alternative<compiler::ExternOp>(operation)) break;
    ++kernels;
  }
  EXPECT_EQ(kernels, 3);
}

// What a training step's forward graph saves is the image and the filter as they were captured.
TEST(SpaceToDepthTest, WhatIsSavedForBackwardStays) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Shape sizes{2, 3, 9, 9}, filter{8, 3, 3, 3}, out{2, 8, 5, 5};
  const Ref x = g.Input(sizes), w = g.Input(filter);
  const Ref half = Converted(g, x, g.Meta(sizes, kHalf, ChannelsLast(sizes)));
  const Ref half_filter = Converted(g, w, g.Meta(filter, kHalf, ChannelsLast(filter)));
  const Ref y = g.Node("aten::convolution",
                       {half, half_filter, nullptr, Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), false,
                        Ints({0, 0}), 1},
                       g.Meta(out, kHalf, ChannelsLast(out)));
  g.Output(y).Output(half).Output(half_filter);
  const Graph before = Imported(g);
  Graph after = before;
  ASSERT_EQ(SpaceToDepth(kAlways, &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 0.01);
}

TEST(SpaceToDepthTest, GradientsStay) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Shape sizes{64, 3, 224, 224}, filter{64, 3, 7, 7}, out{64, 64, 112, 112};
  const Ref x = g.Input(g.Meta(sizes, kHalf, ChannelsLast(sizes)));
  const Ref w = g.Input(g.Meta(filter, kHalf, ChannelsLast(filter)));
  const Ref gradient = g.Input(g.Meta(out, kHalf, ChannelsLast(out)));
  const Ref both =
      g.Node("aten::convolution_backward",
             {gradient, x, w, nullptr, Ints({2, 2}), Ints({3, 3}), Ints({1, 1}), false,
              Ints({0, 0}), 1, List({false, true, false})},
             {v1::TensorMeta(), g.Meta(filter, kHalf, ChannelsLast(filter)), v1::TensorMeta()});
  g.Output(both.result(1));
  Graph graph = Imported(g);
  EXPECT_EQ(SpaceToDepth(kAlways, &graph), 0);
}

// The copy of an image that is written before the convolution is not looked through.
TEST(SpaceToDepthTest, ReadsWhatTheCopyRead) {
  for (const bool through_view : {false, true}) {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Shape sizes{2, 3, 9, 9}, out{2, 8, 5, 5};
    const Ref x = g.Input(sizes, kHalf), w = g.Input({8, 3, 3, 3}, kHalf);
    const Ref copy = g.Node("aten::clone", {x, nullptr}, g.Meta(sizes, kHalf));
    const Ref twice = g.Node("aten::add.Tensor", {x, x, 1}, g.Meta(sizes, kHalf));
    const Ref to = through_view ? g.Node("aten::alias", {x}, g.Meta(sizes, kHalf)) : x;
    g.Node("aten::copy_", {to, twice, false}, g.Meta(sizes, kHalf));
    g.Output(
        g.Node("aten::convolution",
               {copy, w, nullptr, Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), 1},
               g.Meta(out, kHalf, ChannelsLast(out))));
    const Graph before = Imported(g);
    Graph after = before;
    ASSERT_EQ(SpaceToDepth(kAlways, &after), 1);
    ExpectSameResults(before, after, SomeInputs(before), 0.01);
  }
}

}  // namespace space_to_depth_test
}  // namespace tensord::testing
