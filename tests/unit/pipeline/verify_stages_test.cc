// SPDX-License-Identifier: Apache-2.0
// The verifiers of the schedule, of kernels and of the plan find what was broken by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "compiler/codegen/verify_kernels.h"
#include "compiler/pipeline.h"
#include "compiler/plan/verify_plan.h"
#include "compiler/schedule/verify_schedule.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace verify_stages_test {

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

  v1::Artifact& Plan() { return *state_.result.mutable_artifact(); }
  std::string PlanError() const {
    return std::string(compiler::VerifyPlan(state_.result).message());
  }

  v1::CompileJob job_;
  CompileState state_{};
};

TEST_F(VerifyStagesTest, SoundStagesPass) {
  EXPECT_EQ(ScheduleError(), "");
  EXPECT_EQ(KernelError(), "");
  EXPECT_EQ(PlanError(), "");
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

// A call whose result a launch reads; both results are given out.
TEST_F(VerifyStagesTest, PlansNameWhatExists) {
  const v1::Artifact sound = Plan();
  ASSERT_TRUE(sound.steps(0).has_call());
  ASSERT_TRUE(sound.steps(1).has_launch());
  const auto launch = [&] { return Plan().mutable_steps(1)->mutable_launch(); };
  launch()->set_module(7);
  EXPECT_THAT(PlanError(), HasSubstr("step 1: launches from module 7"));
  Plan() = sound;
  launch()->set_function("another");
  EXPECT_THAT(PlanError(), HasSubstr("step 1: launches another"));
  Plan() = sound;
  launch()->add_buffers(100);
  EXPECT_THAT(PlanError(), HasSubstr("uses buffer 100, which does not exist"));
  Plan() = sound;
  launch()->clear_buffers();
  EXPECT_THAT(PlanError(), HasSubstr("which is no argument"));
  Plan() = sound;
  Plan().mutable_buffers(0)->set_input(5);
  EXPECT_THAT(PlanError(), HasSubstr("buffer 0 is no input"));
  Plan().mutable_buffers(0)->set_view_of(0);
  EXPECT_THAT(PlanError(), HasSubstr("buffer 0 is a view of itself"));
  Plan() = sound;
  Plan().add_bindings();
  EXPECT_THAT(PlanError(), HasSubstr("a binding of symbol 0, which does not exist"));
  Plan() = sound;
  Plan().add_symbols();
  EXPECT_THAT(PlanError(), HasSubstr("symbol 0 is neither read from an input nor defined"));
}

TEST_F(VerifyStagesTest, PlansReadWhatIsThere) {
  const v1::Artifact sound = Plan();
  Plan().mutable_steps()->SwapElements(0, 1);
  EXPECT_THAT(PlanError(), HasSubstr("which nothing has written"));
  Plan() = sound;
  const uint32_t product = sound.steps(0).call().results(0);
  Plan().add_steps()->set_free(product);
  EXPECT_THAT(PlanError(), HasSubstr("which is freed"));  // an output
  Plan().mutable_outputs()->RemoveLast();
  EXPECT_EQ(PlanError(), "");
  Plan().add_steps()->set_free(product);
  EXPECT_THAT(PlanError(), HasSubstr("which is freed"));
  Plan() = sound;
  Plan().add_steps()->set_free(0);
  EXPECT_THAT(PlanError(), HasSubstr("frees buffer 0, which is not the call's own"));
}

}  // namespace verify_stages_test
}  // namespace tensord::testing
