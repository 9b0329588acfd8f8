// SPDX-License-Identifier: Apache-2.0
// The runner: every pass and part is timed and shown, and a failure behind import is the
// compiler's.
#include "compiler/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace pipeline_test {

using compiler::CompileState;
using compiler::Pass;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

v1::CompileJob JobOf(GraphBuilder& g, bool cuda = false) {
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  if (cuda) {
    job.mutable_target()->mutable_cuda()->set_sm(90);
  } else {
    job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  }
  return job;
}

GraphBuilder Sum(v1::DeviceType device = v1::DEVICE_TYPE_CPU) {
  GraphBuilder g(device);
  const Ref x = g.Input({4, 8});
  g.Output(g.Node("aten::add.Tensor", {x, x, 1}, g.Meta({4, 8})));
  return g;
}

TEST(PipelineTest, PartsAreTimedAndShownInOrder) {
  GraphBuilder g = Sum(v1::DEVICE_TYPE_CUDA);
  const v1::CompileJob job = JobOf(g, /*cuda=*/true);
  CompileState state{.job = &job};
  std::vector<std::string> seen;
  ASSERT_TRUE(compiler::RunPipeline(state, [&](const Pass& pass, const CompileState&) {
                seen.push_back(pass.name);
              }).ok());
  EXPECT_EQ(seen, compiler::PassNames());  // every rewrite is for CUDA
  std::map<std::string, uint64_t> times;
  for (const v1::StageTime& stage : state.result.stages()) {
    EXPECT_TRUE(times.emplace(stage.stage(), stage.nanoseconds()).second) << stage.stage();
  }
  EXPECT_EQ(times.count("verify"), 1u);
  for (const std::string pass : {"rewrite", "normalize"}) {
    uint64_t parts = 0;
    for (const auto& [name, time] : times) parts += name.starts_with(pass + "/") ? time : 0;
    EXPECT_GT(parts, 0u);
    EXPECT_LE(parts, times[pass]);
  }
}

TEST(PipelineTest, PartsForOtherTargetsDoNotRun) {
  GraphBuilder g = Sum();
  const v1::CompileJob job = JobOf(g);
  CompileState state{.job = &job};
  std::vector<std::string> seen;
  ASSERT_TRUE(compiler::RunPipeline(state, [&](const Pass& pass, const CompileState&) {
                seen.push_back(pass.name);
              }).ok());
  EXPECT_THAT(seen, Contains("rewrite/cross_entropy"));
  EXPECT_THAT(seen, Not(Contains("rewrite/pad_products")));
}

TEST(PipelineTest, PartsThatRoundOtherwiseDoNotRunWhereEagersRoundingIsWanted) {
  GraphBuilder g = Sum(v1::DEVICE_TYPE_CUDA);
  v1::CompileJob job = JobOf(g, /*cuda=*/true);
  job.mutable_options()->set_emulate_eager_rounding(true);
  CompileState state{.job = &job};
  std::vector<std::string> seen;
  ASSERT_TRUE(compiler::RunPipeline(state, [&](const Pass& pass, const CompileState&) {
                seen.push_back(pass.name);
              }).ok());
  EXPECT_THAT(seen, Not(Contains("rewrite/product_epilogues")));
  EXPECT_THAT(seen, Contains("rewrite/pad_products"));
}

// What contradicts itself is refused, by a message that names the node.
TEST(PipelineTest, GraphsThatContradictThemselvesAreInvalid) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("aten::add.Tensor", {x, "text", 1}, g.Meta({4})));
  const auto malformed = compiler::Compile(JobOf(g));
  EXPECT_EQ(malformed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(malformed.status().message()), HasSubstr("node 'n0' (aten::add.Tensor)"));

  GraphBuilder h;
  const Ref a = h.Input({4}), b = h.Input({5});
  h.Output(h.Node("aten::add.Tensor", {a, b, 1}, h.Meta({4})));
  const auto failed = compiler::Compile(JobOf(h));
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.status().message(),
            "node 'n0' (aten::add.Tensor): sizes do not broadcast together: [4] and [5]");
}

TEST(PipelineTest, DumpsOnePassOrAll) {
  GraphBuilder g = Sum();
  const v1::CompileJob job = JobOf(g);
  std::string text;
  const auto print = [&](const std::string& dump) { text += dump; };
  ASSERT_TRUE(compiler::CompileAndDump(job, "import", print).ok());
  EXPECT_THAT(text, HasSubstr("==== import\n%0 = input x0: float32[4, 8]"));
  EXPECT_THAT(text, Not(HasSubstr("==== lower")));
  text.clear();
  ASSERT_TRUE(compiler::CompileAndDump(job, "all", print).ok());
  for (const char* pass :
       {"import", "normalize/split_loops", "schedule", "codegen", "memory", "plan"}) {
    EXPECT_THAT(text, HasSubstr(std::string("==== ") + pass + "\n"));
  }
  text.clear();
  ASSERT_TRUE(compiler::CompileAndDump(job, "rewrite/pad_products", print).ok());
  EXPECT_THAT(text, HasSubstr("is not for this target"));
  const absl::Status unknown = compiler::CompileAndDump(job, "fuse", print);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("no pass 'fuse'; there are import, "));
}

TEST(PipelineTest, WhatPassesMadeIsPrintedBeforeLaterOnesRun) {
  GraphBuilder g = Sum();
  const v1::CompileJob job = JobOf(g);
  std::vector<std::string> printed;
  struct Stop {};
  const auto stop_behind_lower = [&](const std::string& dump) {
    printed.push_back(dump.substr(0, dump.find('\n')));
    if (printed.back() == "==== lower") throw Stop();
  };
  EXPECT_THROW((void)compiler::CompileAndDump(job, "all", stop_behind_lower), Stop);
  ASSERT_GE(printed.size(), 2u);
  EXPECT_EQ(printed.front(), "==== import");
  EXPECT_EQ(printed.back(), "==== lower");
}

}  // namespace pipeline_test
}  // namespace tensord::testing
