// SPDX-License-Identifier: Apache-2.0
// Scans on the CPU: which nests they are part of, and the numbers of whole kernels against the
// loop IR.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "compiler/schedule/cpu/transposed_rows.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/kernel_ir.h"
#include "tests/unit/testing/kernel_runner.h"
#include "tests/unit/testing/lowered_loops.h"

namespace tensord::testing {
namespace cpu_scans_test {

using compiler::CompileState;
using compiler::Nest;
using compiler::NestShape;
using ::testing::Contains;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kF64 = v1::DTYPE_FLOAT64, kI64 = v1::DTYPE_INT64;

v1::Isa Widest() {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return v1::ISA_AVX512;
  }
  return __builtin_cpu_supports("avx2") ? v1::ISA_AVX2 : v1::ISA_SCALAR;
}

Ref CumulativeSum(GraphBuilder& g, Ref x, int dim, const Shape& sizes, v1::DType dtype = kF32) {
  return g.Node("aten::cumsum", {x, dim, nullptr}, g.Meta(sizes, dtype));
}

class Compiled {
 public:
  explicit Compiled(const GraphBuilder& graph) : graph_(graph) {
    *job_.mutable_graph() = graph_.graph();
    job_.mutable_target()->mutable_cpu()->set_isa(Widest());
    state_.job = &job_;
    const absl::Status status = compiler::RunPipeline(state_);
    EXPECT_TRUE(status.ok()) << status;
  }

  const CompileState& state() const { return state_; }
  std::vector<Nest> Nests() const {
    std::vector<Nest> nests;
    for (const auto& step : state_.schedule.steps) {
      const auto* kernel = std::get_if<compiler::Kernel>(&step.work);
      EXPECT_NE(kernel, nullptr) << "a library call";
      if (kernel == nullptr) continue;
      nests.insert(nests.end(), kernel->nests.begin(), kernel->nests.end());
    }
    return nests;
  }
  Nest OneNest() const {
    const std::vector<Nest> nests = Nests();
    EXPECT_EQ(nests.size(), 1u) << compiler::ToString(state_.program);
    return nests.empty() ? Nest{} : nests[0];
  }

  // Runs the kernels on float32 inputs of these sizes, small integers whose sums are exact.
  void ExpectNumbers(const std::vector<std::vector<int64_t>>& sizes,
                     const InterpreterOptions& options = {}) {
    std::vector<HostTensor> inputs;
    for (const std::vector<int64_t>& of : sizes) {
      int64_t count = 1;
      for (const int64_t size : of) count *= size;
      std::vector<double> values;
      for (int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<double>((i * 7 + 3) % 19 - 9));
      }
      inputs.push_back(MakeTensor(of, values));
    }
    ExpectNumbersOf(std::move(inputs), options);
  }
  void ExpectNumbersOf(std::vector<HostTensor> inputs, const InterpreterOptions& options = {}) {
    const auto wanted = Interpret(LoweredLoops(graph_), inputs, options);
    KernelLibrary library(Widest());
    for (const auto& kernel : state_.kernels) {
      const absl::Status status = library.Add({kernel.source});
      ASSERT_TRUE(status.ok()) << kernel.source << status;
    }
    for (const int threads : {1, 3}) {
      const auto results = RunKernels(state_, library, inputs, threads, options);
      ASSERT_EQ(results.size(), wanted.size());
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].Values(), wanted[i].Values()) << "result " << i;
      }
    }
  }

 private:
  GraphBuilder graph_;
  v1::CompileJob job_;
  CompileState state_{};
};

TEST(CpuScans, WhatIsPointwiseAroundAScanSharesItsPass) {
  GraphBuilder g;
  const Shape sizes{5, 100};
  const Ref x = g.Input(sizes);
  const Ref doubled = g.Node("aten::mul.Scalar", {x, 2}, g.Meta(sizes));
  const Ref sums = CumulativeSum(g, doubled, 1, sizes);
  g.Output(g.Node("aten::add.Tensor", {sums, x, 1}, g.Meta(sizes)));
  Compiled compiled(g);
  const Nest nest = compiled.OneNest();
  EXPECT_EQ(nest.shape, NestShape::kTiled);
  ASSERT_EQ(nest.members.size(), 2u);
  EXPECT_EQ(nest.members[0].position, nest.members[1].position);
  EXPECT_EQ(nest.local.size(), 1u);  // the sums are in no memory
  compiled.ExpectNumbers({{5, 100}});
}

// As in sampling from the most probable tokens.
TEST(CpuScans, FollowReductionsOfTheirRow) {
  GraphBuilder g;
  const Shape sizes{6, 333};
  const Ref x = g.Input(sizes);
  const Ref p = g.Node("aten::_softmax", {x, 1, false}, g.Meta(sizes));
  const Ref sums = CumulativeSum(g, p, 1, sizes);
  g.Output(g.Node("aten::lt.Scalar", {sums, 0.9}, g.Meta(sizes, v1::DTYPE_BOOL)));
  EXPECT_EQ(Compiled(g).OneNest().shape, NestShape::kTiled);
}

TEST(CpuScans, ARowOfSeveralLoopsIsOneScan) {
  GraphBuilder g;
  const Shape rows{4, 222}, parts{4, 6, 37};
  const Ref x = g.Input(rows), y = g.Input({6, 1});
  const Ref sums = CumulativeSum(g, x, 1, rows);
  const Ref view = g.Node("aten::view", {sums, Ints({4, 6, 37})}, g.Meta(parts));
  g.Output(g.Node("aten::add.Tensor", {view, y, 1}, g.Meta(parts)));
  Compiled compiled(g);
  EXPECT_EQ(compiled.OneNest().inner.size(), 2u);
  compiled.ExpectNumbers({{4, 222}, {6, 1}});
}

TEST(CpuScans, OfAnOuterDimensionRunsInBlocksOfColumns) {
  GraphBuilder g;
  const Shape sizes{3, 50, 130};
  const Ref x = g.Input(sizes);
  g.Output(CumulativeSum(g, x, 1, sizes));
  Compiled compiled(g);
  EXPECT_EQ(compiled.OneNest().shape, NestShape::kBlocked);
  compiled.ExpectNumbers({{3, 50, 130}});
}

TEST(CpuScans, TakeNoTransposedTiles) {
  GraphBuilder g;
  const Shape sizes{64, 96};
  const Ref x = g.Input({96, 64});
  const Ref t = g.Node("aten::t", {x}, g.Meta(sizes, kF32, {1, 64}));
  g.Output(CumulativeSum(g, t, 1, sizes));
  Compiled compiled(g);
  EXPECT_FALSE(compiler::CanScheduleTransposedRows(compiled.OneNest(), 16).ok());
  compiled.ExpectNumbers({{96, 64}});
}

TEST(CpuScans, BackwardsAreBetweenReversals) {
  GraphBuilder g;
  const Shape sizes{5, 70};
  const Ref x = g.Input(sizes);
  const Ref flipped = g.Node("aten::flip", {x, Ints({1})}, g.Meta(sizes));
  const Ref sums = CumulativeSum(g, flipped, 1, sizes);
  g.Output(g.Node("aten::flip", {sums, Ints({1})}, g.Meta(sizes)));
  Compiled(g).ExpectNumbers({{5, 70}});
}

TEST(CpuScans, ExtremesHaveTheirPlaces) {
  GraphBuilder g;
  const Shape sizes{5, 70};
  const Ref x = g.Input(sizes);
  const Ref both = g.Node("aten::cummax", {x, 1}, {g.Meta(sizes), g.Meta(sizes, kI64)});
  const Ref down = g.Node("aten::cummin", {x, 0}, {g.Meta(sizes), g.Meta(sizes, kI64)});
  for (const Ref& result : {both, both.result(1), down, down.result(1)}) g.Output(result);
  Compiled(g).ExpectNumbers({{5, 70}});
}

TEST(CpuScans, OfSizesThatTheRunKnows) {
  for (const int64_t size : {1, 2, 17, 64}) {
    GraphBuilder g;
    const Dim rows = g.Symbol(8, 1), columns = g.Symbol(100, 1);
    const Shape sizes{rows, columns};
    const Ref x = g.Input(sizes);
    g.Output(CumulativeSum(g, x, 1, sizes));
    g.Output(CumulativeSum(g, x, 0, sizes));
    InterpreterOptions options;
    options.symbols = {{0, size}, {1, 3 * size}};
    Compiled(g).ExpectNumbers({{size, 3 * size}}, options);
  }
}

// Where the values of the second one's rows lie in scratch memory follows from sizes of the first.
TEST(CpuScans, OfOpenSizesShareAKernel) {
  GraphBuilder g;
  const Shape sizes[] = {{3, g.Symbol(31, 1)}, {3, g.Symbol(33, 1)}};
  const Ref inputs[] = {g.Input(sizes[0]), g.Input(sizes[1])};
  for (int i = 0; i < 2; ++i) {
    const Ref most = g.Node("aten::amax", {inputs[i], Ints({1}), true}, g.Meta({3, 1}));
    const Ref less = g.Node("aten::sub.Tensor", {inputs[i], most, 1}, g.Meta(sizes[i]));
    const Ref sums = CumulativeSum(g, less, 1, sizes[i]);
    const Ref least = g.Node("aten::amin", {sums, Ints({1}), true}, g.Meta({3, 1}));
    g.Output(g.Node("aten::sub.Tensor", {sums, least, 1}, g.Meta(sizes[i])));
  }
  InterpreterOptions options;
  options.symbols = {{0, 31}, {1, 33}};
  Compiled compiled(g);
  ASSERT_EQ(compiled.state().schedule.steps.size(), 1u);
  compiled.ExpectNumbers({{3, 31}, {3, 33}}, options);
}

TEST(CpuScans, OfOneElementOrNone) {
  GraphBuilder g;
  const Ref one = g.Input({4, 1}), none = g.Input({4, 0}), number = g.Input(Shape{});
  g.Output(CumulativeSum(g, one, 1, {4, 1}));
  g.Output(CumulativeSum(g, none, 1, {4, 0}));
  g.Output(CumulativeSum(g, number, 0, {}));
  Compiled(g).ExpectNumbers({{4, 1}, {4, 0}, {}});
}

// No partial sum of float64 that eager does not have may overflow.
TEST(CpuScans, Float64IsCombinedInOrder) {
  for (const auto& [dtype, function] : {std::pair{kF32, "scan"}, std::pair{kF64, "scan_sums"}}) {
    GraphBuilder g;
    const Shape sizes{5, 100};
    const Ref x = g.Input(sizes, dtype);
    g.Output(CumulativeSum(g, x, 1, sizes, dtype));
    const Compiled compiled(g);
    EXPECT_THAT(CallsOf(compiled.state().kernels.at(0).ir), Contains(function));
  }
}

// Products of one vector of float32 may be beyond float64, or too small for it, where those from
// the start are not.
TEST(CpuScans, ProductsAreCombinedInOrder) {
  const auto doubled = [](int64_t each, double first, double second) {
    std::vector<double> values(each, first);
    values.resize(2 * each, second);
    return MakeTensor({2 * each}, values);
  };
  GraphBuilder g;
  const Ref x = g.Input({32});
  g.Output(g.Node("aten::cumprod", {x, 0, nullptr}, g.Meta({32})));
  Compiled compiled(g);
  for (const HostTensor& input :
       {doubled(16, 1e-19, 1e20), doubled(16, 0, 1e38), doubled(16, 1e38, 1e-45)}) {
    compiled.ExpectNumbersOf({input});
  }
}

TEST(Scans, TheVerifierSaysWhatIsBroken) {
  GraphBuilder g;
  const Ref x = g.Input({4, 8});
  g.Output(CumulativeSum(g, x, 1, {4, 8}));
  const compiler::Program sound = LoweredLoops(g);
  EXPECT_TRUE(compiler::VerifyProgram(sound).ok());
  const auto broken = [&](const auto& change) {
    compiler::Program program = sound;
    change(std::get<compiler::LoopOp>(program.operations.at(0)));
    return std::string(compiler::VerifyProgram(program).message());
  };
  using compiler::Inst;
  using compiler::LoopOp;
  EXPECT_THAT(broken([](LoopOp& op) {
                op.sizes.push_back(op.reduce_sizes[0]);
                op.reduce_sizes.clear();
              }),
              ::testing::HasSubstr("outside of a scan"));
  EXPECT_THAT(broken([](LoopOp& op) {
                for (Inst& inst : op.block.insts) {
                  if (inst.kind == compiler::InstKind::kScan) inst.op = compiler::Op::k_sub;
                }
              }),
              ::testing::HasSubstr("what cannot be"));
  EXPECT_THAT(broken([](LoopOp& op) {
                for (Inst& inst : op.block.insts) {
                  if (inst.kind == compiler::InstKind::kScan) inst.kind = compiler::InstKind::kCast;
                }
              }),
              ::testing::HasSubstr("for nothing"));
}

}  // namespace cpu_scans_test
}  // namespace tensord::testing
