// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_bias_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace convolution_bias_gradient_test {

using compiler::ArgumentValue;
using compiler::Graph;
using ::testing::ElementsAre;

constexpr auto kFloat = v1::DTYPE_FLOAT32;

struct Options {
  std::vector<int> image{6, 7}, kernel{3, 2};
  Dim batch = 2;
  int channels = 4, outputs = 6, groups = 1;
  bool transposed = false, channels_last = false;
  v1::DType dtype = kFloat;
  std::vector<bool> mask{true, true, true};
};

Shape Sizes(const Dim& batch, int channels, const std::vector<int>& image) {
  Shape sizes{batch, channels};
  sizes.insert(sizes.end(), image.begin(), image.end());
  return sizes;
}

// The gradients that the mask asks for, of a convolution with stride 1 and without padding, given
// twice the gradient that comes in.
Graph Gradients(const Options& o) {
  GraphBuilder g;
  std::vector<int> out;
  for (size_t d = 0; d < o.image.size(); ++d) {
    const int more = o.kernel[d] - 1;
    out.push_back(o.image[d] + (o.transposed ? more : -more));
  }
  const auto meta = [&](const Shape& sizes) {
    return g.Meta(sizes, o.dtype, o.channels_last ? ChannelsLast(sizes) : Shape{});
  };
  const Shape filter = o.transposed ? Sizes(o.channels, o.outputs / o.groups, o.kernel)
                                    : Sizes(o.outputs, o.channels / o.groups, o.kernel);
  const v1::TensorMeta gradient = meta(Sizes(o.batch, o.outputs, out)),
                       image = meta(Sizes(o.batch, o.channels, o.image)), weight = meta(filter);
  const Ref given = g.Input(gradient), x = g.Input(image), w = g.Input(weight);
  const Ref twice = g.Node("aten::add.Tensor", {given, given, 1}, gradient);
  const Shape ones(o.image.size(), 1), zeros(o.image.size(), 0);
  const v1::TensorMeta all[] = {image, weight, g.Meta({o.outputs}, o.dtype)};
  std::vector<v1::TensorMeta> results;
  for (int i = 0; i < 3; ++i) results.push_back(o.mask[i] ? all[i] : v1::TensorMeta());
  const Ref made =
      g.Node("aten::convolution_backward",
             {twice, x, w, Ints({o.outputs}), Ints(ones), Ints(zeros), Ints(ones), o.transposed,
              Ints(zeros), o.groups, List({o.mask[0], o.mask[1], o.mask[2]})},
             results);
  for (int i = 0; i < 3; ++i) {
    if (o.mask[i]) g.Output(made.result(i));
  }
  return Imported(g);
}

int Sums(const Options& o) {
  Graph graph = Gradients(o);
  return compiler::ConvolutionBiasGradient(CudaTarget(), &graph);
}

TEST(ConvolutionBiasGradientTest, IsASum) {
  for (const bool channels_last : {false, true}) {
    const Graph before = Gradients({.channels_last = channels_last});
    Graph after = before;
    EXPECT_EQ(compiler::ConvolutionBiasGradient(CudaTarget(), &after), 1);
    ExpectSameResults(before, after, SomeInputs(before), 1e-6);
    const compiler::Node& call = NodeOf(after, "aten::convolution_backward");
    EXPECT_TRUE(call.args[10].items[1].integer.Is(1));
    EXPECT_TRUE(call.args[10].items[2].integer.Is(0));
    EXPECT_EQ(call.args[3].kind, ArgumentValue::kNone);
    EXPECT_EQ(NodeOf(after, "aten::sum.dim_IntList").name, call.name);
  }
}

TEST(ConvolutionBiasGradientTest, AloneItNeedsNoCall) {
  const Graph before = Gradients({.mask = {false, false, true}});
  Graph after = before;
  EXPECT_EQ(compiler::ConvolutionBiasGradient(CudaTarget(), &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 1e-6);
  EXPECT_THAT(OpsOf(after), ElementsAre("aten::add.Tensor", "aten::sum.dim_IntList"));
}

TEST(ConvolutionBiasGradientTest, OfEveryConvolution) {
  EXPECT_EQ(Sums({.groups = 2}), 1);
  EXPECT_EQ(Sums({.transposed = true}), 1);
  EXPECT_EQ(Sums({.groups = 2, .transposed = true}), 1);
  EXPECT_EQ(Sums({.image = {9}, .kernel = {3}}), 1);
  EXPECT_EQ(Sums({.image = {5, 6, 7}, .kernel = {3, 1, 2}}), 1);
  EXPECT_EQ(Sums({.dtype = v1::DTYPE_BFLOAT16}), 1);
  EXPECT_EQ(Sums({.dtype = v1::DTYPE_FLOAT64}), 1);
}

TEST(ConvolutionBiasGradientTest, StaysWhereItIsNoSumOfOurs) {
  EXPECT_EQ(Sums({.mask = {true, true, false}}), 0);
  EXPECT_EQ(Sums({.dtype = v1::DTYPE_COMPLEX64}), 0);
  EXPECT_EQ(Sums({.channels = 0}), 0);  // zeros in eager
}

}  // namespace convolution_bias_gradient_test
}  // namespace tensord::testing
