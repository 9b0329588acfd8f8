// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace convolution_bias_test {

using compiler::Graph;

constexpr auto kFloat = v1::DTYPE_FLOAT32;
const Shape kSizes{2, 4, 5, 5};

// Convolutions of 4 to 4 channels over channels-last tensors.
class Net {
 public:
  explicit Net(int groups = 1) : groups_(groups) {
    x = g.Input(Meta());
    w = g.Input({4, 4 / groups, 3, 3});
    b = g.Input({4});
    c = g.Input({4});
  }

  v1::TensorMeta Meta() const { return g.Meta(kSizes, kFloat, strides); }
  Ref Conv(Ref input, Ref bias) {
    return g.Node(
        "aten::convolution",
        {input, w, bias, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), groups_},
        Meta());
  }
  Ref Neg(Ref t) { return g.Node("aten::neg", {t}, Meta()); }

  GraphBuilder g;
  Shape strides = ChannelsLast(kSizes);
  Ref x{0}, w{0}, b{0}, c{0};

 private:
  int groups_;
};

TEST(ConvolutionBiasTest, GoesToTheKernelBehind) {
  Net net;
  net.g.Output(net.Neg(net.Conv(net.x, net.b)));
  const Graph before = Imported(net.g);
  Graph after = before;
  EXPECT_EQ(compiler::ConvolutionBias(CudaTarget(), &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 1e-6);
  EXPECT_EQ(NodeOf(after, "aten::convolution").args[2].kind, compiler::ArgumentValue::kNone);
}

TEST(ConvolutionBiasTest, StaysInDepthwiseKernelsOfRowMajorImages) {
  Net depthwise(4);
  depthwise.g.Output(depthwise.Neg(depthwise.Conv(depthwise.x, depthwise.b)));
  Graph graph = Imported(depthwise.g);
  EXPECT_EQ(compiler::ConvolutionBias(CudaTarget(), &graph), 1);
  Net rows(4);
  rows.strides = {};
  rows.g.Output(rows.Neg(rows.Conv(rows.x, rows.b)));
  graph = Imported(rows.g);
  EXPECT_EQ(compiler::ConvolutionBias(CudaTarget(), &graph), 0);
}

TEST(ConvolutionBiasTest, StaysWhereNoKernelFollows) {
  Net net;
  net.g.Output(net.Conv(net.Conv(net.x, net.b), net.c));
  Graph graph = Imported(net.g);
  EXPECT_EQ(compiler::ConvolutionBias(CudaTarget(), &graph), 0);
}

}  // namespace convolution_bias_test
}  // namespace tensord::testing
