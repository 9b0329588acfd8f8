// SPDX-License-Identifier: Apache-2.0
// Every lowering of the operator tables against eager PyTorch: the cases of tests/golden, run by
// the reference interpreter.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "compiler/decompose/lower_graph.h"
#include "compiler/decompose/lowering.h"
#include "compiler/decompose/operators/concatenation.h"
#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace decompose_golden_test {

bool HasLibraryCall(const compiler::Program& program) {
  for (const compiler::Operation& operation : program.operations) {
    if (std::holds_alternative<compiler::ExternOp>(operation)) return true;
  }
  return false;
}

class DecomposeGolden : public ::testing::TestWithParam<const GoldenCase*> {};

TEST_P(DecomposeGolden, EqualsEager) {
  const GoldenCase& golden = *GetParam();
  SCOPED_TRACE(golden.graph.nodes(0).ShortDebugString());
  const auto graph = VerifiedImport(golden.graph);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto program = compiler::LowerGraph(*graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(compiler::VerifyProgram(*program).ok()) << compiler::VerifyProgram(*program);
  ASSERT_FALSE(HasLibraryCall(*program)) << "left to the library";
  std::vector<HostTensor> inputs = golden.inputs;
  ExpectResults(golden, Interpret(*program, inputs));
}

INSTANTIATE_TEST_SUITE_P(Case, DecomposeGolden, ::testing::ValuesIn(GoldenParameters()),
                         [](const auto& info) { return info.param->name; });

// A new line in one of these tables needs a case.
TEST(GoldenCases, CoverEveryOperator) {
  std::set<std::string> covered;
  for (const GoldenCase& golden : GoldenCases()) covered.insert(golden.Operator());
  for (const auto& table :
       {compiler::ActivationLowerings(), compiler::ReductionLowerings(), compiler::ScanLowerings(),
        compiler::SoftmaxLowerings(), compiler::NormLowerings(), compiler::LossLowerings(),
        compiler::IndexingLowerings(), compiler::PointwiseLowerings(), compiler::ViewLowerings(),
        compiler::ConcatenationLowerings(), compiler::CreationLowerings(),
        compiler::MaxPoolLowerings(), compiler::MaxPoolBackwardLowerings(),
        compiler::AveragePoolLowerings(), compiler::SearchLowerings(),
        compiler::GridSamplerLowerings()}) {
    for (const compiler::Lowering& op : table) {
      if (compiler::WritesArgument(compiler::FindOperator(op.name))) continue;
      // Not of torch: passes over the graph make them, and the tests of those passes run them.
      if (op.name.starts_with("tensord::")) continue;
      EXPECT_TRUE(covered.contains(std::string(op.name))) << op.name;
    }
  }
}

bool HasComplexNumbers(const v1::Graph& graph) {
  for (const v1::Input& input : graph.inputs()) {
    if (compiler::IsComplex(input.tensor().dtype())) return true;
  }
  return compiler::IsComplex(graph.nodes(0).outputs(0).dtype());
}

TEST(GoldenCases, CoverComplexNumbers) {
  std::set<std::string> covered;
  for (const GoldenCase& golden : GoldenCases()) {
    if (HasComplexNumbers(golden.graph)) covered.insert(golden.Operator());
  }
  for (const compiler::Lowering& op : compiler::ComplexLowerings()) {
    EXPECT_TRUE(covered.contains(std::string(op.name))) << op.name;
  }
}

// What no operator is lowered to is dead weight in two preludes.
TEST(GoldenCases, ReachEveryScalarOperation) {
  std::set<std::string> reached;
  for (const GoldenCase& golden : GoldenCases()) {
    const auto graph = VerifiedImport(golden.graph);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto program = compiler::LowerGraph(*graph);
    ASSERT_TRUE(program.ok()) << program.status();
    for (const compiler::Operation& operation : program->operations) {
      const auto* loop = std::get_if<compiler::LoopOp>(&operation);
      if (loop == nullptr) continue;
      for (const compiler::Inst& inst : loop->block.insts) {
        if (inst.kind == compiler::InstKind::kCompute || inst.kind == compiler::InstKind::kScan) {
          reached.insert(compiler::InfoOf(inst.op).name);
        }
      }
    }
  }
#define TENSORD_OP(name, ...) EXPECT_TRUE(reached.contains(#name)) << #name;
#include "compiler/loop_ir/ops.def"
}

// A shape of one input or one number of an argument, made wrong.
void Spoil(v1::Graph& graph, std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (graph.inputs_size() > 0 && pick(3) != 0) {
    v1::TensorMeta* meta = graph.mutable_inputs(pick(graph.inputs_size()))->mutable_tensor();
    switch (meta->sizes_size() == 0 ? 0 : pick(3)) {
      case 0:
        meta->add_sizes()->set_constant(pick(4));
        meta->add_strides()->set_constant(1);
        break;
      case 1:
        meta->mutable_sizes()->RemoveLast();
        meta->mutable_strides()->RemoveLast();
        break;
      default:
        meta->mutable_sizes(pick(meta->sizes_size()))->set_constant(pick(8));
    }
    return;
  }
  v1::Node* node = graph.mutable_nodes(0);
  v1::Argument* arg = node->mutable_args(pick(node->args_size()));
  if (arg->has_list() && arg->list().items_size() > 0) {
    if (pick(3) == 0) {
      arg->mutable_list()->mutable_items()->RemoveLast();
      return;
    }
    arg = arg->mutable_list()->mutable_items(pick(arg->list().items_size()));
  }
  if (arg->has_integer()) arg->mutable_integer()->set_constant(pick(10) - 5);
}

// A wrong graph is refused or left to the library; it never ends the process. On GPUs operators may
// be lowered otherwise.
TEST(GoldenCases, AreRefusedWhenSpoiled) {
  std::mt19937 random(1);
  int refused = 0;
  for (const GoldenCase& golden : GoldenCases()) {
    for (int i = 0; i < 20; ++i) {
      v1::Graph spoiled = i % 2 == 0 ? golden.graph : OnCuda(golden.graph);
      Spoil(spoiled, random);
      if (std::getenv("TENSORD_TEST_VERBOSE") != nullptr) {
        std::fprintf(stderr, "%s\n", spoiled.ShortDebugString().c_str());
      }
      const auto graph = VerifiedImport(spoiled);
      if (!graph.ok()) continue;
      const auto program = compiler::LowerGraph(*graph);
      if (program.ok()) {
        EXPECT_TRUE(compiler::VerifyProgram(*program).ok()) << compiler::VerifyProgram(*program);
      } else {
        EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << program.status();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace decompose_golden_test
}  // namespace tensord::testing
