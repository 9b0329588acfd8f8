// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/expr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "tests/unit/testing/expression_vectors.h"

namespace tensord::runtime {
namespace {

v1::SymExpr Constant(int64_t value) {
  v1::SymExpr expr;
  expr.set_constant(value);
  return expr;
}

v1::SymExpr Symbol(uint32_t number) {
  v1::SymExpr expr;
  expr.set_symbol(number);
  return expr;
}

v1::SymExpr Op(v1::SymOp::Kind kind, std::initializer_list<v1::SymExpr> args) {
  v1::SymExpr expr;
  expr.mutable_op()->set_kind(kind);
  for (const auto& arg : args) *expr.mutable_op()->add_args() = arg;
  return expr;
}

TEST(ExprTable, FoldsConstants) {
  ExprTable table(0);
  Slot slot = 0;
  ASSERT_EQ(table.Add(Op(v1::SymOp::MUL, {Constant(6), Constant(7), Constant(-1)}), &slot),
            TENSORD_OK);
  EXPECT_EQ(table.values()[slot], -42);
  EXPECT_TRUE(table.is_static());
  EXPECT_TRUE(table.IsConstant(slot));
}

TEST(ExprTable, RoundsTowardsMinusInfinity) {
  struct Case {
    int64_t left, right, quotient, remainder;
  };
  for (const Case& c : {Case{7, 2, 3, 1}, {-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1}}) {
    ExprTable table(0);
    Slot q = 0, r = 0;
    ASSERT_EQ(table.Add(Op(v1::SymOp::FLOOR_DIV, {Constant(c.left), Constant(c.right)}), &q), 0);
    ASSERT_EQ(table.Add(Op(v1::SymOp::MOD, {Constant(c.left), Constant(c.right)}), &r), 0);
    EXPECT_EQ(table.values()[q], c.quotient) << c.left << "/" << c.right;
    EXPECT_EQ(table.values()[r], c.remainder) << c.left << "%" << c.right;
  }
}

TEST(ExprTable, EvaluatesSymbols) {
  ExprTable table(2);
  Slot constant = 0, bare = 0, formula = 0;
  ASSERT_EQ(table.Add(Constant(5), &constant), 0);
  ASSERT_EQ(table.Add(Symbol(1), &bare), 0);
  ASSERT_EQ(table.Add(Op(v1::SymOp::MAX, {Op(v1::SymOp::ADD, {Symbol(0), Constant(1)}),
                                          Op(v1::SymOp::MIN, {Symbol(1), Constant(3)})}),
                      &formula),
            0);
  EXPECT_FALSE(table.is_static());
  EXPECT_TRUE(table.IsConstant(constant));
  EXPECT_FALSE(table.IsConstant(bare));
  auto values = table.values();
  values[0] = 1;
  values[1] = 9;
  ASSERT_TRUE(table.Evaluate(values.data()));
  EXPECT_EQ(values[constant], 5);
  EXPECT_EQ(values[bare], 9);
  EXPECT_EQ(values[formula], 3);
}

TEST(ExprTable, ReportsOverflowAndDivisionByZero) {
  ExprTable table(1);
  Slot slot = 0;
  ASSERT_EQ(table.Add(Op(v1::SymOp::FLOOR_DIV, {Constant(1), Symbol(0)}), &slot), 0);
  auto values = table.values();
  values[0] = 0;
  EXPECT_FALSE(table.Evaluate(values.data()));
  EXPECT_EQ(table.Add(Op(v1::SymOp::MOD, {Constant(1), Constant(0)}), &slot), TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Op(v1::SymOp::MUL, {Constant(INT64_MAX), Constant(2)}), &slot),
            TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Op(v1::SymOp::FLOOR_DIV, {Constant(INT64_MIN), Constant(-1)}), &slot),
            TENSORD_CORRUPT);
}

TEST(ExprTable, GivesTheSharedVectors) {
  const auto vectors = testing::ReadExpressionVectors();
  ASSERT_FALSE(vectors.empty());
  for (const auto& vector : vectors) {
    ExprTable table(2);
    Slot slot = 0;
    ASSERT_EQ(table.Add(vector.message, &slot), TENSORD_OK) << vector.message.DebugString();
    for (const auto& [symbols, value] : vector.results) {
      auto values = table.values();
      std::ranges::copy(symbols, values.begin());
      ASSERT_EQ(table.Evaluate(values.data()), value.has_value())
          << vector.message.ShortDebugString() << " of " << symbols[0] << ", " << symbols[1];
      if (value) {
        EXPECT_EQ(values[slot], *value) << vector.message.ShortDebugString();
      }
    }
  }
}

TEST(ExprTable, RefusesWhatIsMalformed) {
  ExprTable table(1);
  Slot slot = 0;
  EXPECT_EQ(table.Add({}, &slot), TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Symbol(1), &slot), TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Op(v1::SymOp::ADD, {}), &slot), TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Op(v1::SymOp::MOD, {Symbol(0)}), &slot), TENSORD_CORRUPT);
  EXPECT_EQ(table.Add(Op(v1::SymOp::KIND_UNSPECIFIED, {Symbol(0)}), &slot), TENSORD_CORRUPT);
  v1::SymExpr deep = Symbol(0);
  for (int i = 0; i < 62; ++i) deep = Op(v1::SymOp::ADD, {Constant(1), deep});
  ASSERT_EQ(table.Add(deep, &slot), TENSORD_OK);
  auto values = table.values();
  values[0] = 10;
  ASSERT_TRUE(table.Evaluate(values.data()));
  EXPECT_EQ(values[slot], 72);
  EXPECT_EQ(table.Add(Op(v1::SymOp::ADD, {Constant(1), deep}), &slot), TENSORD_CORRUPT);
}

}  // namespace
}  // namespace tensord::runtime
