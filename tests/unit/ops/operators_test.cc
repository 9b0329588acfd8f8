// SPDX-License-Identifier: Apache-2.0
// The table of operators: schemas are read as they are written, and it agrees with the lowerings.
#include "compiler/ops/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/decompose/lowering.h"

namespace tensord::testing {
namespace {

using compiler::ArgumentType;
using compiler::FindOperator;
using compiler::Operator;
using compiler::OperatorKind;
using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const Operator& op) {
  std::vector<std::string> names;
  for (const compiler::Parameter& p : op.parameters) names.emplace_back(p.name);
  return names;
}

TEST(OperatorsTest, ASchemaIsReadAsItIsWritten) {
  const Operator* add = FindOperator("aten::add.Tensor");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->kind, OperatorKind::kPointwise);
  EXPECT_THAT(NamesOf(*add), ElementsAre("self", "other", "alpha"));
  EXPECT_EQ(add->parameters[0].type, ArgumentType::kTensorOrNumber);
  EXPECT_EQ(add->parameters[2].type, ArgumentType::kNumber);
  EXPECT_EQ(add->Position("alpha"), 2);
  EXPECT_EQ(add->Position("beta"), -1);

  const Operator* index = FindOperator("aten::index_put_");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->written, 0);
  EXPECT_TRUE(index->parameters[0].written);
  EXPECT_TRUE(index->parameters[1].list && index->parameters[1].optional_items);
  EXPECT_FALSE(index->parameters[1].optional);

  const Operator* sum = FindOperator("aten::sum.dim_IntList");
  ASSERT_NE(sum, nullptr);
  EXPECT_TRUE(sum->parameters[1].list && sum->parameters[1].optional);
  EXPECT_FALSE(sum->parameters[1].optional_items);
  EXPECT_EQ(FindOperator("aten::no_such_operator"), nullptr);
}

TEST(OperatorsTest, EffectsAreThoseOfTorch) {
  for (const char* op : {"aten::rand", "aten::bernoulli.p", "aten::native_dropout",
                         "aten::randint.low", "tensord::seed"}) {
    EXPECT_TRUE(compiler::HasTrait(FindOperator(op), compiler::kDrawsRandomNumbers)) << op;
  }
  // Functions of their seed.
  EXPECT_FALSE(
      compiler::HasTrait(FindOperator("tensord::philox_uniform"), compiler::kDrawsRandomNumbers));
  EXPECT_TRUE(compiler::WritesArgument(FindOperator("aten::copy_")));
  EXPECT_FALSE(compiler::WritesArgument(FindOperator("aten::copy")));
}

TEST(OperatorsTest, NamesAreSortedAndDifferAndSoAreArguments) {
  std::string last;
  for (const Operator& op : compiler::AllOperators()) {
    EXPECT_LT(last, op.name);
    last = std::string(op.name);
    std::vector<std::string> names = NamesOf(op);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << op.name;
  }
}

// Every lowering has a schema, and every schema that is not the library's has a lowering.
TEST(OperatorsTest, AgreeWithLowerings) {
  for (const std::string& name : compiler::LoweringNames()) {
    EXPECT_TRUE(compiler::IsLowered(FindOperator(name))) << name;
  }
  for (const Operator& op : compiler::AllOperators()) {
    EXPECT_EQ(compiler::FindLowering(op.name) != nullptr, op.IsLowered()) << op.name;
  }
}

// What follows from a kind for whoever asks.
TEST(OperatorsTest, KindsKeepTheirPromises) {
  for (const Operator& op : compiler::AllOperators()) {
    if (op.kind == OperatorKind::kView) {
      ASSERT_FALSE(op.parameters.empty()) << op.name;
      EXPECT_EQ(op.parameters[0].type, ArgumentType::kTensor) << op.name;
    }
    EXPECT_TRUE(!op.Has(compiler::kHasCopy) || op.kind == OperatorKind::kView) << op.name;
    EXPECT_FALSE(op.Has(compiler::kFollowsLayout) && op.IsLowered()) << op.name;
    EXPECT_FALSE(op.Has(compiler::kAnyResultLayout) && !op.IsLowered()) << op.name;
  }
}

}  // namespace
}  // namespace tensord::testing
