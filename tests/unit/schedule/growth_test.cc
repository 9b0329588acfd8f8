// SPDX-License-Identifier: Apache-2.0
// The work of a compile grows with the graph, not faster: what is counted here depends on no clock.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "compiler/schedule/access.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/growing_graphs.h"

namespace {
std::atomic<int64_t> allocated_bytes = 0;
}  // namespace

// Copies of what grows with the graph, made for each of its nodes, show in the bytes that are asked
// for.
__attribute__((noinline)) void* operator new(size_t bytes) {
  allocated_bytes += static_cast<int64_t>(bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocated_bytes += static_cast<int64_t>(bytes);
  return std::malloc(bytes);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tensord::testing {
namespace {

struct Work {
  double pairs = 0, visits = 0, bytes = 0, notes = 0;  // per node
};

Work WorkOf(const GrowingGraph& graph, int nodes, bool cuda) {
  const v1::CompileJob job = GrowingJob(graph, nodes, cuda);
  const int64_t before = allocated_bytes;
  compiler::CompileState state{.job = &job};
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  const double count = job.graph().nodes_size();
  const compiler::FusionWork& fusion = state.schedule.work;
  return {static_cast<double>(fusion.pairs) / count, static_cast<double>(fusion.visits) / count,
          static_cast<double>(allocated_bytes - before) / count,
          static_cast<double>(state.schedule.notes.size()) / count};
}

TEST(GrowthTest, WorkPerNodeIsFlat) {
  constexpr double kFlat = 1.5;
  for (const bool cuda : {false, true}) {
    for (const GrowingGraph& graph : GrowingGraphs()) {
      SCOPED_TRACE(std::string(graph.name) + (cuda ? " on CUDA" : " on a CPU"));
      const Work small = WorkOf(graph, 1000, cuda), large = WorkOf(graph, 5000, cuda);
      EXPECT_LE(large.bytes, kFlat * small.bytes);
      EXPECT_LE(large.notes, kFlat * small.notes + 1);
      // Windows are wider than the smallest programs, whose groups try all others.
      EXPECT_LE(large.pairs, kFlat * small.pairs + 10);
      EXPECT_LE(large.pairs, 300);
      EXPECT_LE(large.visits, 200);  // a search ends after 1024, whatever the size
    }
  }
}

// 48 parts of twelve operands each would make one nest: more than a kernel takes as arguments.
TEST(GrowthTest, AKernelHasNoMoreArgumentsThanItTakes) {
  constexpr int kParts = 48, kOperands = 12;
  GrowingGraph sums{"sums", [](int, v1::DeviceType device) {
                      GraphBuilder g(device);
                      const v1::TensorMeta meta = g.Meta({64});
                      for (int i = 0; i < kParts * kOperands; ++i) g.Input(meta);
                      std::vector<Arg> parts;
                      for (uint32_t part = 0; part < kParts; ++part) {
                        Ref sum{part * kOperands};
                        for (uint32_t i = 1; i < kOperands; ++i) {
                          sum =
                              g.Node("aten::add.Tensor", {sum, Ref{part * kOperands + i}, 1}, meta);
                        }
                        parts.push_back(sum);
                      }
                      g.Output(g.Node("aten::cat", {List(parts), 0}, g.Meta({kParts * 64})));
                      return g.graph();
                    }};
  const v1::CompileJob job = GrowingJob(sums, 0, /*cuda=*/true);
  compiler::CompileState state{.job = &job};
  const absl::Status status = compiler::RunPipeline(state);
  ASSERT_TRUE(status.ok()) << status;
  int launches = 0;
  for (const v1::Step& step : state.result.artifact().steps()) {
    if (!step.has_launch()) continue;
    ++launches;
    EXPECT_LE(step.launch().buffers_size(), 480);
  }
  EXPECT_EQ(launches, 2);
}

// ---- Predecessors leave out what follows from others, and nothing else

using compiler::AccessIndex;
using compiler::BufferId;
using compiler::Expr;
using compiler::LoopOp;
using compiler::OperationSet;
using compiler::Program;

// Four elements of a buffer: from `begin` on or, below 0, nobody knows which.
struct Four {
  BufferId buffer;
  int begin;
  Expr index() const {
    const Expr loop = Expr::Loop(0, Expr(4));
    return begin < 0 ? loop * loop : loop + begin;
  }
};

LoopOp Access(const std::vector<Four>& reads, const Four& written) {
  LoopOp op;
  op.sizes = {Expr(4)};
  for (const Four& read : reads) {
    op.block.insts.push_back(
        {.kind = compiler::InstKind::kLoad, .buffer = read.buffer, .index = read.index()});
  }
  op.block.insts.push_back({.kind = compiler::InstKind::kConstant});
  op.stores.push_back({written.buffer, written.index(), 0});
  return op;
}

Program ThreeBuffers() {
  Program program;
  for (int b = 0; b < 3; ++b) {
    program.buffers.push_back({.kind = compiler::BufferKind::kComputed,
                               .dtype = v1::DTYPE_FLOAT32,
                               .sizes = {Expr(64)},
                               .strides = {Expr(1)}});
  }
  return program;
}

// Every pair that must stay in order, looked at one by one. exact: what is read counts by its
// elements, else by its buffer, as it may where one operation alone has written it.
std::vector<OperationSet> AllPredecessors(const Program& program, bool exact) {
  const auto meet = [&](BufferId buffer, const Expr& a, const Expr& b) {
    return !compiler::AreDisjoint(compiler::AccessBoxOf(program.buffers[buffer], a),
                                  compiler::AccessBoxOf(program.buffers[buffer], b));
  };
  std::vector<OperationSet> all(program.operations.size());
  for (int j = 0; j < static_cast<int>(all.size()); ++j) {
    const auto& later = std::get<LoopOp>(program.operations[j]);
    for (int i = 0; i < j; ++i) {
      const auto& earlier = std::get<LoopOp>(program.operations[i]);
      const auto& store = earlier.stores[0];
      bool conflict = store.buffer == later.stores[0].buffer &&
                      meet(store.buffer, store.index, later.stores[0].index);
      for (const auto& inst : later.block.insts) {
        if (inst.kind != compiler::InstKind::kLoad || inst.buffer != store.buffer) continue;
        conflict |= !exact || meet(store.buffer, store.index, inst.index);
      }
      conflict |= compiler::AccessesOf(earlier).reads.count(later.stores[0].buffer) != 0;
      if (conflict) all[j].insert(i);
    }
  }
  return all;
}

// With what follows from others.
std::vector<OperationSet> Closed(std::vector<OperationSet> before) {
  for (OperationSet& of : before) {
    for (int i : OperationSet(of)) of.insert(before[i].begin(), before[i].end());
  }
  return before;
}

// How many of `wanted` are not in `found`.
int Missing(const std::vector<OperationSet>& wanted, const std::vector<OperationSet>& found) {
  int missing = 0;
  for (size_t j = 0; j < wanted.size(); ++j) {
    for (int i : wanted[j]) missing += found[j].count(i) == 0;
  }
  return missing;
}

TEST(PredecessorsTest, AreThoseOfAllPairs) {
  std::mt19937 random(11);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const auto four = [&] { return Four{pick(3), pick(8) == 0 ? -1 : 2 * pick(30)}; };
  for (int round = 0; round < 500; ++round) {
    Program program = ThreeBuffers();
    for (int i = 0; i < 24; ++i) {
      std::vector<Four> reads;
      if (pick(3) == 0) reads.push_back(four());
      if (pick(9) == 0) reads.push_back(four());
      program.operations.push_back(Access(reads, four()));
    }
    const auto found = Closed(Predecessors(program, AccessIndex(program)));
    EXPECT_EQ(Missing(Closed(AllPredecessors(program, /*exact=*/true)), found), 0);
    EXPECT_EQ(Missing(found, Closed(AllPredecessors(program, /*exact=*/false))), 0);
  }
}

TEST(PredecessorsTest, ReaderOfOnePartDoesNotWaitForTheOther) {
  Program program = ThreeBuffers();
  program.operations = {Access({}, {0, 0}), Access({}, {0, 4}), Access({{0, 0}}, {1, 0}),
                        Access({{0, 4}, {0, 2}}, {2, 0}), Access({}, {0, 8})};
  const auto found = Predecessors(program, AccessIndex(program));
  EXPECT_EQ(found[2], OperationSet({0}));
  EXPECT_EQ(found[3], OperationSet({0, 1}));
  EXPECT_EQ(Closed(found)[4], OperationSet({0, 1, 2, 3}));
}

}  // namespace
}  // namespace tensord::testing
