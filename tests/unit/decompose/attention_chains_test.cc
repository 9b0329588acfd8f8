// SPDX-License-Identifier: Apache-2.0
// Which operators of attention are one call that a kernel of ours computes, and what it is given.
#include <gmock/gmock.h>

#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/attention_graphs.h"

namespace tensord::testing {
namespace attention_chains_test {

using compiler::Attention;
using compiler::ExternOp;
using compiler::Program;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// `library`: an operator whose nodes the job wants to be library calls.
Program LowerFor(AttentionGraph& of, bool has_warpgroups = true, const std::string& library = "") {
  auto graph = VerifiedImport(of.g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  for (compiler::Node& node : graph->nodes) node.library = node.op == library;
  auto program = compiler::LowerGraph(*graph, {.has_warpgroups = has_warpgroups});
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  EXPECT_TRUE(compiler::VerifyProgram(*program).ok()) << compiler::VerifyProgram(*program);
  return *std::move(program);
}

// The attention that kernels of ours compute.
std::vector<const ExternOp*> KernelsOf(const Program& program) {
  std::vector<const ExternOp*> kernels;
  for (const auto& operation : program.operations) {
    const auto* call = std::get_if<ExternOp>(&operation);
    if (call != nullptr && call->attention != nullptr) kernels.push_back(call);
  }
  return kernels;
}

TEST(AttentionChains, AForwardChainIsOneCall) {
  AttentionGraph of({.is_causal = true});
  of.Forward();
  const Program program = LowerFor(of);
  EXPECT_EQ(program.operations.size(), 1u);
  const auto kernels = KernelsOf(program);
  ASSERT_EQ(kernels.size(), 1u);
  const Attention& attention = *kernels[0]->attention;
  EXPECT_EQ(attention.kind, Attention::kForward);
  EXPECT_EQ(attention.lists, 4);
  EXPECT_EQ(attention.block_queries, 128);
  EXPECT_EQ(kernels[0]->args.size(), 7u);  // queries, keys, values, and the lists
  EXPECT_EQ(kernels[0]->outs.size(), 3u);
  ASSERT_EQ(attention.functions.size(), 2u);
  // Only scores of partial blocks look where they are.
  EXPECT_THAT(ToString(attention.functions[0].block), HasSubstr("ge"));
  EXPECT_THAT(ToString(attention.functions[1].block), Not(HasSubstr("ge")));
}

TEST(AttentionChains, ABackwardChainIsTwoCalls) {
  AttentionGraph of({.is_causal = true});
  of.Backward();
  const Program program = LowerFor(of);
  EXPECT_EQ(program.operations.size(), 2u);
  const auto kernels = KernelsOf(program);
  ASSERT_EQ(kernels.size(), 2u);
  for (const ExternOp* kernel : kernels) {
    const Attention& attention = *kernel->attention;
    ASSERT_EQ(attention.products.size(), 2u);
    // Four tensors of rows, four lists, and what the functions read of each query.
    EXPECT_EQ(kernel->args.size(), 10u);
  }
  // Queries, keys, values and gradients, in whatever order their products are.
  std::vector<int> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(std::get<compiler::BufferView>(kernels[1]->args[i].value).buffer);
  }
  EXPECT_THAT(buffers, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(kernels[0]->attention->kind, Attention::kQueryGradient);
  EXPECT_EQ(kernels[0]->attention->functions.size(), 2u);
  EXPECT_EQ(kernels[1]->attention->kind, Attention::kKeyGradients);
  EXPECT_EQ(kernels[1]->attention->functions.size(), 4u);
}

// The job's operators are called, with all scores in memory.
void ExpectTheJobs(AttentionGraph& of, bool has_warpgroups = true) {
  const Program program = LowerFor(of, has_warpgroups);
  EXPECT_EQ(KernelsOf(program).size(), 0u);
  EXPECT_THAT(lower_graph_testing::LibraryCalls(program),
              ElementsAre("tensord::attention_products", "tensord::attention"));
}

TEST(AttentionChains, WithoutWarpgroupsTheJobsAreCalled) {
  AttentionGraph of({});
  of.Forward();
  ExpectTheJobs(of, /*has_warpgroups=*/false);
}

// Of which the JIT could not compile the kernel.
TEST(AttentionChains, WhatIsToBeACallIsTheJobsWithItsProducts) {
  for (const char* op : {"tensord::attention", "tensord::attention_products"}) {
    AttentionGraph of({});
    of.Forward();
    EXPECT_THAT(lower_graph_testing::LibraryCalls(LowerFor(of, true, op)),
                ElementsAre("tensord::attention_products", "tensord::attention"));
    EXPECT_TRUE(compiler::IsInJobs(op));
  }
  EXPECT_FALSE(compiler::IsInJobs("tensord::residual_product"));
  EXPECT_TRUE(compiler::IsInJobs("aten::mm"));
}

TEST(AttentionChains, ScoresThatOthersReadAreInMemory) {
  AttentionGraph of({});
  const Ref scaled = of.Scaled(of.Products(of.query, of.key, 0));
  of.g.Output(of.Attention(scaled, scaled));
  of.g.Output(scaled);
  ExpectTheJobs(of);
}

TEST(AttentionChains, WhatNeedsAWholeRowIsNoFunctionOfAScore) {
  AttentionGraph of({});
  const Ref scaled = of.Scaled(of.Products(of.query, of.key, 0));
  const Ref row = of.g.Node("aten::amax", {scaled, Ints({-1}), true},
                            of.Meta({of.c.batch, of.c.heads, of.c.queries, 1}));
  const Ref less = of.g.Node("aten::sub.Tensor", {scaled, row, 1}, of.Meta(of.scores));
  of.g.Output(of.Attention(less, less));
  ExpectTheJobs(of);
}

TEST(AttentionChains, AScoreOfNoProductIsNone) {
  AttentionGraph of({});
  of.Products(of.query, of.key, 0);
  of.g.Output(of.Attention(of.given, of.given));
  const Program program = LowerFor(of);
  EXPECT_THAT(lower_graph_testing::LibraryCalls(program), ElementsAre("tensord::attention"));
}

TEST(AttentionChains, EndsThatShareProductsAreKernelsTogetherOrNot) {
  AttentionGraph of({});
  of.Backward();
  // Some other node reads what both ends' functions are made of.
  const Ref products{static_cast<uint32_t>(of.g.graph().inputs_size()), 0};
  of.g.Output(of.g.Node("aten::sum", {products, nullptr}, of.Meta({})));
  EXPECT_EQ(KernelsOf(LowerFor(of)).size(), 0u);
}

TEST(AttentionChains, RowsThatAreNotContiguousAreCopied) {
  AttentionGraph of({.groups = 4});
  const Ref scaled = of.Scaled(of.Products(of.query, of.across, 0));
  of.g.Output(of.Attention(scaled, scaled));
  const Program program = LowerFor(of);
  EXPECT_EQ(program.operations.size(), 2u);
  ASSERT_EQ(KernelsOf(program).size(), 1u);
  const auto& key = std::get<compiler::BufferView>(KernelsOf(program)[0]->args[1].value);
  EXPECT_TRUE(key.strides[3].Is(1));
}

TEST(AttentionChains, WhatIsMadeOfPlacesAloneIsExact) {
  AttentionGraph of({});
  const Ref places =
      of.g.Node("aten::arange", {of.c.keys, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr},
                of.Meta({of.c.keys}));
  const Ref windows = of.g.Node("aten::div.Tensor", {places, 121.0}, of.Meta({of.c.keys}));
  const Ref scaled = of.Scaled(of.Products(of.query, of.key, 0));
  const Ref sum = of.g.Node("aten::add.Tensor", {scaled, windows, 1}, of.Meta(of.scores));
  of.g.Output(of.Attention(sum, sum));
  const Program program = LowerFor(of);
  ASSERT_EQ(KernelsOf(program).size(), 1u);
  EXPECT_THAT(ToString(KernelsOf(program)[0]->attention->functions[0].block), HasSubstr("div"));
}

TEST(AttentionChains, OtherTypesAndWidthsAreTheJobs) {
  for (const AttentionCase& c : {AttentionCase{.dtype = v1::DTYPE_FLOAT32},
                                 AttentionCase{.width = 136}, AttentionCase{.value_width = 12}}) {
    AttentionGraph of(c);
    of.Forward();
    ExpectTheJobs(of);
  }
}

// What is wanted of scores is no more than what their operands have.
TEST(AttentionChains, FunctionsOfScoresTakeCheaperForms) {
  AttentionGraph of({});
  const Ref scaled = of.Scaled(of.Products(of.query, of.key, 0));
  const Ref part = of.g.Node("aten::div.Tensor", {scaled, 20.0}, of.Meta(of.scores));
  const Ref tanh = of.g.Node("aten::tanh", {part}, of.Meta(of.scores));
  const Ref capped = of.g.Node("aten::mul.Tensor", {tanh, 20.0}, of.Meta(of.scores));
  of.g.Output(of.Attention(capped, capped));
  const Program program = LowerFor(of);
  ASSERT_EQ(KernelsOf(program).size(), 1u);
  const std::string text = ToString(KernelsOf(program)[0]->attention->functions[0].block);
  EXPECT_THAT(text, Not(HasSubstr("div")));
  EXPECT_THAT(text, HasSubstr("tanh"));
}

}  // namespace attention_chains_test
}  // namespace tensord::testing
