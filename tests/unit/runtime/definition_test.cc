// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/definition.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/unit/testing/expression_vectors.h"

namespace tensord::runtime {
namespace {

// The rounding of the first of two symbols times a number.
v1::Definition Scaled(double factor, v1::Definition::Rounding rounding) {
  v1::Definition definition;
  definition.set_rounding(rounding);
  v1::RealOp& product = *definition.mutable_real()->mutable_op();
  product.set_kind(v1::RealOp::MUL);
  product.add_args()->set_constant(factor);
  product.add_args()->mutable_integer()->set_symbol(0);
  return definition;
}

TEST(Definition, GivesTheSharedVectors) {
  const auto vectors = testing::ReadDefinitionVectors();
  ASSERT_FALSE(vectors.empty());
  for (const auto& vector : vectors) {
    Definition definition;
    ASSERT_EQ(Definition::Make(vector.message, 2, &definition), TENSORD_OK);
    for (const auto& [symbols, value] : vector.results) {
      int64_t result = 0;
      ASSERT_EQ(definition.Evaluate(symbols.data(), &result), value.has_value())
          << vector.message.ShortDebugString() << " of " << symbols[0] << ", " << symbols[1];
      if (value) EXPECT_EQ(result, *value) << vector.message.ShortDebugString();
    }
  }
}

TEST(Definition, HasNoValueBeyond64Bits) {
  for (const double factor : {9.3e18, -9.3e18, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    Definition definition;
    ASSERT_EQ(Definition::Make(Scaled(factor, v1::Definition::TRUNC), 1, &definition), TENSORD_OK);
    const int64_t one = 1;
    int64_t result = 0;
    EXPECT_FALSE(definition.Evaluate(&one, &result)) << factor;
  }
  Definition least;
  ASSERT_EQ(Definition::Make(Scaled(-0x1p63, v1::Definition::FLOOR), 1, &least), TENSORD_OK);
  const int64_t one = 1;
  int64_t result = 0;
  ASSERT_TRUE(least.Evaluate(&one, &result));
  EXPECT_EQ(result, std::numeric_limits<int64_t>::min());
}

TEST(Definition, NestsAsDeeplyAsExpressionsDo) {
  v1::Definition definition = Scaled(2, v1::Definition::TRUNC);
  const auto nest = [&] {
    v1::RealExpr inner = definition.real();
    v1::RealOp& sum = *definition.mutable_real()->mutable_op();
    sum.Clear();
    sum.set_kind(v1::RealOp::ADD);
    sum.add_args()->set_constant(1);
    *sum.add_args() = inner;
  };
  for (uint32_t i = 1; i < kMaxExprDepth; ++i) nest();
  Definition made;
  ASSERT_EQ(Definition::Make(definition, 1, &made), TENSORD_OK);
  const int64_t ten = 10;
  int64_t result = 0;
  ASSERT_TRUE(made.Evaluate(&ten, &result));
  EXPECT_EQ(result, 20 + kMaxExprDepth - 1);
  nest();
  EXPECT_EQ(Definition::Make(definition, 1, &made), TENSORD_CORRUPT);
}

struct Malformed {
  const char* name;
  const char* error;
  std::function<void(v1::Definition&)> change;
};

class MalformedDefinition : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedDefinition, IsRefused) {
  v1::Definition definition = Scaled(1.7, v1::Definition::TRUNC);
  GetParam().change(definition);
  Definition made;
  EXPECT_EQ(Definition::Make(definition, 1, &made), TENSORD_CORRUPT);
  EXPECT_NE(LastError().find(GetParam().error), std::string::npos) << LastError();
}

const Malformed kMalformed[] = {
    {"NoRounding", "rounds in an unknown way", [](auto& d) { d.clear_rounding(); }},
    {"UnknownRounding", "rounds in an unknown way",
     [](auto& d) { d.set_rounding(static_cast<v1::Definition::Rounding>(77)); }},
    {"NoNumber", "is empty", [](auto& d) { d.clear_real(); }},
    {"EmptyOperand", "is empty", [](auto& d) { d.mutable_real()->mutable_op()->add_args(); }},
    {"NoOperands", "wrong arity", [](auto& d) { d.mutable_real()->mutable_op()->clear_args(); }},
    {"OneDividend", "wrong arity",
     [](auto& d) {
       d.mutable_real()->mutable_op()->mutable_args()->RemoveLast();
       d.mutable_real()->mutable_op()->set_kind(v1::RealOp::DIV);
     }},
    {"TwoRadicands", "wrong arity",
     [](auto& d) { d.mutable_real()->mutable_op()->set_kind(v1::RealOp::SQRT); }},
    {"UnknownOperation", "unknown operation",
     [](auto& d) { d.mutable_real()->mutable_op()->set_kind(static_cast<v1::RealOp::Kind>(77)); }},
    {"ItselfOrLater", "symbol 1 of 1",
     [](auto& d) {
       d.mutable_real()->mutable_op()->mutable_args(1)->mutable_integer()->set_symbol(1);
     }},
};

INSTANTIATE_TEST_SUITE_P(Each, MalformedDefinition, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tensord::runtime
