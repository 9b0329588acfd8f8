// SPDX-License-Identifier: Apache-2.0
// The cross entropy's gradient in one step: the same numbers, and no sum over classes.
#include "compiler/rewrite/cross_entropy.h"

#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_products.h"

namespace tensord::testing {
namespace cross_entropy_test {

constexpr v1::DType kI64 = v1::DTYPE_INT64, kF32 = v1::DTYPE_FLOAT32;
constexpr int kMean = 1, kNone = 0;

struct Case {
  int reduction;
  bool weighted;
  int dim;
  int64_t ignore_index;
};

GraphBuilder LossGradient(const Case& c) {
  GraphBuilder g;
  const bool each = c.reduction == kNone;
  const Ref grad = each ? g.Input({6}) : g.Input(Shape{});
  const Ref y = g.Input({6, 5}), target = g.Input({6}, kI64), logarithm = g.Input(Shape{});
  const Arg weight = c.weighted ? Arg(g.Input({5})) : Arg(nullptr);
  const Ref total = g.Node("aten::exp", {logarithm}, g.Meta(Shape{}));  // not zero
  const Ref loss =
      g.Node("aten::nll_loss_backward",
             {grad, y, target, weight, c.reduction, c.ignore_index, total}, g.Meta({6, 5}));
  g.Output(g.Node("aten::_log_softmax_backward_data", {loss, y, c.dim, kF32}, g.Meta({6, 5})));
  return g;
}

class CrossEntropy : public ::testing::TestWithParam<Case> {};

TEST_P(CrossEntropy, SameNumbersWithoutASum) {
  GraphBuilder g = LossGradient(GetParam());
  const compiler::Graph before = Imported(g);
  compiler::Graph after = Imported(g);
  EXPECT_EQ(compiler::CrossEntropy({}, &after), 1);
  ExpectSameOutputs(before, after);
  for (const auto& operation : MustLower(after).operations) {
    EXPECT_TRUE(std::get<compiler::LoopOp>(operation).reductions.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, CrossEntropy,
                         ::testing::Values(Case{kMean, false, -1, -100}, Case{kMean, true, 1, 1},
                                           Case{kNone, false, 1, 0}, Case{2, true, -1, -100}));

// A narrow log-softmax whose loss is computed in float32, as under autocast.
TEST(CrossEntropy, CastsBetweenTheTwoGoToo) {
  constexpr v1::DType kBf16 = v1::DTYPE_BFLOAT16;
  const auto to = [](GraphBuilder& g, const Ref& x, v1::DType dtype) {
    return g.Node("aten::_to_copy", {x, dtype, nullptr, nullptr, nullptr, false, nullptr},
                  g.Meta({6, 5}, dtype));
  };
  GraphBuilder g;
  const Ref grad = g.Input(Shape{}), y = g.Input({6, 5}, kBf16), target = g.Input({6}, kI64);
  const Ref logarithm = g.Input(Shape{});
  const Ref total = g.Node("aten::exp", {logarithm}, g.Meta(Shape{}));
  const Ref loss =
      g.Node("aten::nll_loss_backward", {grad, to(g, y, kF32), target, nullptr, kMean, -100, total},
             g.Meta({6, 5}));
  g.Output(g.Node("aten::_log_softmax_backward_data", {to(g, loss, kBf16), y, 1, kBf16},
                  g.Meta({6, 5}, kBf16)));
  const compiler::Graph before = Imported(g);
  compiler::Graph after = Imported(g);
  EXPECT_EQ(compiler::CrossEntropy({}, &after), 1);
  ExpectSameOutputs(before, after);
  EXPECT_EQ(MustLower(after).operations.size(), 1u);
}

TEST(CrossEntropy, OtherDimensionsAndGradientsStay) {
  GraphBuilder g = LossGradient({kMean, false, 0, -100});
  compiler::Graph graph = Imported(g);
  EXPECT_EQ(compiler::CrossEntropy({}, &graph), 0);
  GraphBuilder h;
  const Ref grad = h.Input({6, 5}), y = h.Input({6, 5});
  h.Output(h.Node("aten::_log_softmax_backward_data", {grad, y, 1, kF32}, h.Meta({6, 5})));
  graph = Imported(h);
  EXPECT_EQ(compiler::CrossEntropy({}, &graph), 0);
}

TEST(CrossEntropy, StaysBeforeWritesToItsOperands) {
  GraphBuilder g;
  const Ref grad = g.Input(Shape{}), y = g.Input({6, 5}), target = g.Input({6}, kI64),
            total = g.Input(Shape{}), next = g.Input({6}, kI64);
  const Ref loss = g.Node("aten::nll_loss_backward", {grad, y, target, nullptr, kMean, -100, total},
                          g.Meta({6, 5}));
  g.Node("aten::copy_", {target, next, false}, g.Meta({6}, kI64));
  g.Output(g.Node("aten::_log_softmax_backward_data", {loss, y, 1, kF32}, g.Meta({6, 5})));
  compiler::Graph graph = Imported(g);
  EXPECT_EQ(compiler::CrossEntropy({}, &graph), 0);
}

}  // namespace cross_entropy_test
}  // namespace tensord::testing
