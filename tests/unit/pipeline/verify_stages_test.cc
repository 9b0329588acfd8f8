// SPDX-License-Identifier: Apache-2.0
// The verifiers of the schedule and of kernels find what was broken by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "compiler/codegen/verify_kernels.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/verify_schedule.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace {

using compiler::CompileState;
using compiler::Kernel;
using compiler::Nest;
using ::testing::HasSubstr;

// y = x x, by a product; exp(y) + y, rows of which are summed: a launch behind a call.
class VerifyStagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GraphBuilder g;
    const Ref x = g.Input({64, 64});
    const Ref y = g.Node("aten::mm", {x, x}, g.Meta({64, 64}));
    const Ref e = g.Node("aten::exp", {y}, g.Meta({64, 64}));
    const Ref s = g.Node("aten::sum.dim_IntList", {e, Ints({1}), true, nullptr}, g.Meta({64, 1}));
    g.Output(g.Node("aten::div.Tensor", {e, s}, g.Meta({64, 64}))).Output(y);
    *job_.mutable_graph() = g.graph();
    job_.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
    state_.job = &job_;
    const absl::Status status = compiler::RunPipeline(state_);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(state_.schedule.steps.size(), 2u);
  }

  Nest& TheNest() { return std::get<Kernel>(state_.schedule.steps[1].work).nests[0]; }
  std::string ScheduleError() const {
    return std::string(compiler::VerifySchedule(state_.program, state_.schedule).message());
  }
  std::string KernelError() const {
    return std::string(
        compiler::VerifyKernels(state_.program, state_.schedule, state_.kernels, false).message());
  }

  v1::CompileJob job_;
  CompileState state_{};
};

TEST_F(VerifyStagesTest, SoundStagesPass) {
  EXPECT_EQ(ScheduleError(), "");
  EXPECT_EQ(KernelError(), "");
}

TEST_F(VerifyStagesTest, EveryOperationRunsOnce) {
  const Nest nest = TheNest();
  TheNest().members.pop_back();
  EXPECT_THAT(ScheduleError(), HasSubstr("runs nowhere"));
  TheNest() = nest;
  TheNest().members.push_back(nest.members.front());
  EXPECT_THAT(ScheduleError(), HasSubstr("runs twice"));
}

TEST_F(VerifyStagesTest, WhatIsReadWasWritten) {
  std::swap(state_.schedule.steps[0], state_.schedule.steps[1]);
  EXPECT_THAT(ScheduleError(), HasSubstr("runs before buffer"));
}

TEST_F(VerifyStagesTest, MembersRunBehindWhatTheyRead) {
  ASSERT_GE(TheNest().members.size(), 2u);
  std::swap(TheNest().members.front(), TheNest().members.back());
  EXPECT_THAT(ScheduleError(), HasSubstr("runs before buffer"));
}

TEST_F(VerifyStagesTest, LocalsStayInTheirNest) {
  const auto& product = std::get<compiler::ExternOp>(state_.program.operations[0]);
  TheNest().local.insert(product.results[0]);
  EXPECT_THAT(ScheduleError(), HasSubstr("is local to a nest"));
}

TEST_F(VerifyStagesTest, KernelsSayWhatTheyTouch) {
  compiler::KernelSource& kernel = state_.kernels[1];
  const compiler::KernelSource sound = kernel;
  kernel.launch.written.clear();
  EXPECT_THAT(KernelError(), HasSubstr("step 1: does not say what it writes"));
  kernel = sound;
  kernel.launch.buffers.clear();
  EXPECT_THAT(KernelError(), HasSubstr("writes what is no argument"));
  kernel = sound;
  kernel.functions.push_back(kernel.functions.front());
  EXPECT_THAT(KernelError(), HasSubstr("two functions"));
  kernel = sound;
  kernel.launch.integers.push_back(sym::Expr::Loop(0, sym::Expr(4)));
  EXPECT_THAT(KernelError(), HasSubstr("an integer counts a loop"));
  kernel = sound;
  kernel.functions[0].name = "another";
  EXPECT_THAT(KernelError(), HasSubstr("the source has no function another"));
}

}  // namespace
}  // namespace tensord::testing
