// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_epilogues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace convolution_epilogues_test {

using compiler::Graph;
using ::testing::ElementsAre;

constexpr auto kFloat = v1::DTYPE_FLOAT32;
const Shape kSizes{2, 4, 5, 5};

// Convolutions of 4 to 4 channels over channels-last tensors.
class Net {
 public:
  explicit Net(v1::DType dtype = kFloat, int groups = 1) : groups_(groups), dtype_(dtype) {
    x = g.Input(Meta());
    z = g.Input(Meta());
    w = g.Input({4, 4 / groups, 3, 3}, dtype);
    v = g.Input({4, 4, 1, 1}, dtype);
    b = g.Input({4}, dtype);
    c = g.Input({4}, dtype);
  }

  v1::TensorMeta Meta() const { return g.Meta(kSizes, dtype_, strides); }
  Ref Conv(Ref input, const Arg& bias) {
    return g.Node(
        "aten::convolution",
        {input, w, bias, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), groups_},
        Meta());
  }
  Ref Pointwise(Ref input, const Arg& bias) {
    return g.Node("aten::convolution",
                  {input, v, bias, Ints({1}), Ints({0}), Ints({1}), false, Ints({0}), 1}, Meta());
  }
  Ref Relu(Ref t) { return g.Node("aten::relu", {t}, Meta()); }
  Ref Add(Ref s, Ref t, int alpha = 1) { return g.Node("aten::add.Tensor", {s, t, alpha}, Meta()); }
  Ref Neg(Ref t) { return g.Node("aten::neg", {t}, Meta()); }

  GraphBuilder g;
  Shape strides = ChannelsLast(kSizes);
  Ref x{0}, z{0}, w{0}, v{0}, b{0}, c{0};

 private:
  int groups_;
  v1::DType dtype_;
};

std::vector<std::string> Fused(Net& net, int count) {
  const Graph before = Imported(net.g);
  Graph after = before;
  EXPECT_EQ(compiler::ConvolutionEpilogues(CudaTarget(), &after), count);
  ExpectSameResults(before, after, SomeInputs(before), 1e-6);
  return OpsOf(after);
}

TEST(ConvolutionEpiloguesTest, ReluWithAndWithoutBias) {
  Net net;
  net.g.Output(net.Relu(net.Conv(net.x, net.b)));
  EXPECT_THAT(Fused(net, 1), ElementsAre("aten::cudnn_convolution_relu"));
  Net plain;
  plain.g.Output(plain.Relu(plain.Conv(plain.x, nullptr)));
  EXPECT_THAT(Fused(plain, 1), ElementsAre("aten::full", "aten::cudnn_convolution_relu"));
}

TEST(ConvolutionEpiloguesTest, AChainOfCalls) {
  Net net;
  const Ref h = net.Relu(net.Conv(net.x, net.b));
  net.g.Output(net.Relu(net.Add(net.Conv(h, net.b), net.x)));
  EXPECT_THAT(Fused(net, 2),
              ElementsAre("aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu"));
}

TEST(ConvolutionEpiloguesTest, ResidualOnEitherSide) {
  Net left, right;
  left.g.Output(left.Relu(left.Add(left.Conv(left.x, left.b), left.z)));
  EXPECT_THAT(Fused(left, 1), ElementsAre("aten::cudnn_convolution_add_relu"));
  right.g.Output(right.Relu(right.Add(right.z, right.Conv(right.x, right.b))));
  EXPECT_THAT(Fused(right, 1), ElementsAre("aten::cudnn_convolution_add_relu"));
}

TEST(ConvolutionEpiloguesTest, TheBiasOfAResidualConvolutionIsAddedPerChannel) {
  Net net;
  const Ref y = net.Conv(net.x, net.b);
  const Ref shortcut = net.Pointwise(net.z, net.c);
  net.g.Output(net.Relu(net.Add(y, shortcut)));
  const Graph before = Imported(net.g);
  Graph after = before;
  EXPECT_EQ(compiler::ConvolutionEpilogues(CudaTarget(), &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 1e-6);
  EXPECT_THAT(OpsOf(after), ElementsAre("aten::convolution", "aten::add.Tensor",
                                        "aten::cudnn_convolution_add_relu"));
  EXPECT_EQ(NodeOf(after, "aten::convolution").args[2].kind, compiler::ArgumentValue::kNone);
  const compiler::Node& call = NodeOf(after, "aten::cudnn_convolution_add_relu");
  ASSERT_EQ(call.args.size(), 9u);
  EXPECT_EQ(call.args[3].kind, compiler::ArgumentValue::kNone);
  EXPECT_EQ(call.args[5].items.size(), 2u);
}

TEST(ConvolutionEpiloguesTest, OnlyWhatIsNotUsedElsewhere) {
  Net net;
  const Ref y = net.Conv(net.x, net.b);
  net.g.Output(net.Relu(y));
  net.g.Output(net.Neg(y));
  Fused(net, 0);
  Net sum;
  const Ref s = sum.Add(sum.Conv(sum.x, sum.b), sum.z);
  sum.g.Output(sum.Relu(s));
  sum.g.Output(sum.Neg(s));
  Fused(sum, 0);
}

TEST(ConvolutionEpiloguesTest, OnlyWhatTheLibraryTakes) {
  Net factor;
  factor.g.Output(factor.Relu(factor.Add(factor.z, factor.Conv(factor.x, factor.b), 2)));
  Fused(factor, 0);
  Net groups(kFloat, 2);
  groups.g.Output(groups.Relu(groups.Conv(groups.x, groups.b)));
  Fused(groups, 0);
  Net channels(v1::DTYPE_BFLOAT16);  // 4 channels of 2 bytes
  channels.g.Output(channels.Relu(channels.Conv(channels.x, channels.b)));
  Fused(channels, 0);
  Net rows;
  rows.strides = {};
  rows.g.Output(rows.Relu(rows.Conv(rows.x, rows.b)));
  Fused(rows, 0);
}

// The fused call stands where the ReLU was, so nothing may have written to what it reads since.
TEST(ConvolutionEpiloguesTest, StaysBeforeWritesToItsOperands) {
  Net bias;
  const Ref y = bias.Conv(bias.x, bias.b);
  bias.g.Node("aten::copy_", {bias.b, bias.c, false}, bias.g.Meta({4}));
  bias.g.Output(bias.Relu(y));
  Fused(bias, 0);
  Net image;
  const Ref of_image = image.Conv(image.x, image.b);
  const Ref view = image.g.Node("aten::alias", {image.x}, image.Meta());
  image.g.Node("aten::copy_", {view, image.z, false}, image.Meta());
  image.g.Output(image.Relu(of_image));
  Fused(image, 0);
  Net residual;
  const Ref sum = residual.Add(residual.Conv(residual.x, residual.b), residual.z);
  residual.g.Node("aten::copy_", {residual.z, residual.x, false}, residual.Meta());
  residual.g.Output(residual.Relu(sum));
  Fused(residual, 0);
}

// The bias of the residual's convolution stays there where it is written later.
TEST(ConvolutionEpiloguesTest, TheBiasOfAResidualStaysBeforeWritesToIt) {
  Net net;
  const Ref shortcut = net.Pointwise(net.z, net.c), y = net.Conv(net.x, net.b);
  net.g.Node("aten::copy_", {net.c, net.b, false}, net.g.Meta({4}));
  net.g.Output(net.Relu(net.Add(y, shortcut)));
  Fused(net, 1);
}

}  // namespace convolution_epilogues_test
}  // namespace tensord::testing
