// SPDX-License-Identifier: Apache-2.0
// The order of the rewrites: what their headers and the table say of it.
#include "compiler/rewrite/rewrite.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compiler/ops/operators.h"
#include "compiler/rewrite/product_facts.h"

namespace tensord::testing {
namespace rewrite_test {

TEST(RewriteTest, PassesComeBeforeThoseThatBuildOnThem) {
  std::map<std::string, size_t> place;
  for (const compiler::GraphRewrite& pass : compiler::RewritePasses()) {
    EXPECT_TRUE(place.emplace(pass.name, place.size()).second) << "twice: " << pass.name;
  }
  const struct {
    const char *first, *then;
  } pairs[] = {
      {"fold_batch_norm", "patch_embedding"},
      {"fold_batch_norm", "channels_last"},
      {"fold_batch_norm", "space_to_depth"},
      {"fold_batch_norm", "convolution_epilogues"},
      {"patch_embedding", "channels_last"},
      {"patch_embedding", "space_to_depth"},
      {"patch_embedding", "product_epilogues"},
      {"channels_last", "space_to_depth"},
      {"channels_last", "convolution_epilogues"},
      {"space_to_depth", "convolution_epilogues"},
      {"convolution_epilogues", "pointwise_convolution"},
      {"convolution_epilogues", "convolution_bias"},
      {"pointwise_convolution", "product_epilogues"},
      {"pointwise_convolution", "convolution_bias"},
      {"pointwise_convolution", "pad_products"},
      {"product_epilogues", "convolution_bias"},
      {"product_epilogues", "pad_products"},
  };
  for (const auto& [first, then] : pairs) {
    EXPECT_LT(place.at(first), place.at(then)) << first << ", " << then;
  }
  for (const auto& [name, at] : place) EXPECT_LE(place.at("common_subexpressions"), at) << name;
}

TEST(RewriteTest, PassesForACpuAreForBoth) {
  v1::Target cpu, cuda;
  cpu.mutable_cpu();
  cuda.mutable_cuda();
  const compiler::GraphRewrite both{"", nullptr, compiler::Targets::kBoth};
  const compiler::GraphRewrite one{"", nullptr, compiler::Targets::kCuda};
  EXPECT_TRUE(both.IsFor(cpu) && both.IsFor(cuda) && one.IsFor(cuda));
  EXPECT_FALSE(one.IsFor(cpu));
}

// Padding knows the operands of every product of matrices, or there is a reason.
TEST(RewriteTest, PaddingKnowsProducts) {
  const std::map<std::string_view, const char*> others = {
      {"aten::dot", "of vectors"},
      {"aten::mv", "of a vector"},
      {"aten::addmv", "of a vector"},
      {"tensord::residual_product", "of whole vectors: pointwise_convolution makes no other"},
  };
  size_t products = 0;
  for (const compiler::Operator& op : compiler::AllOperators()) {
    if (op.kind != compiler::OperatorKind::kProduct) continue;
    ++products;
    const auto* row = std::find_if(std::begin(compiler::kProducts), std::end(compiler::kProducts),
                                   [&](const auto& r) { return r.op == op.name; });
    const bool known = row != std::end(compiler::kProducts);
    EXPECT_NE(known, others.count(op.name) > 0) << op.name;
    if (!known) continue;
    for (const std::string_view operand : {row->a, row->b, row->added}) {
      EXPECT_TRUE(operand.empty() || op.Position(operand) >= 0) << op.name << " " << operand;
    }
  }
  EXPECT_EQ(products, std::size(compiler::kProducts) + others.size());
}

}  // namespace rewrite_test
}  // namespace tensord::testing
