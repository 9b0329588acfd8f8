// SPDX-License-Identifier: Apache-2.0
// The work of a compile grows with the graph, not faster: what is counted here depends on no clock.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
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

}  // namespace
}  // namespace tensord::testing
