// SPDX-License-Identifier: Apache-2.0
// Results of a plan: values that show the same memory alike are tensors of their own.
#include <gtest/gtest.h>

#include <vector>

#include "compiler/compile.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace plan_results_test {

v1::Artifact PlanOf(GraphBuilder& g) {
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  const auto result = compiler::Compile(job);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->artifact();
}

TEST(PlanResults, OneValueIsOneTensorAndOthersAreViewsOfItsMemory) {
  GraphBuilder g;
  const Ref y = g.Node("aten::sin", {g.Input({4})}, g.Meta({4}));
  const Ref apart = g.Node("aten::detach", {y}, g.Meta({4}));
  g.Output(apart).Output(y).Output(apart).Output(y);
  const v1::Artifact plan = PlanOf(g);
  const uint32_t memory = plan.outputs(0).buffer(), view = plan.outputs(1).buffer();
  EXPECT_TRUE(plan.buffers(static_cast<int>(memory)).owned());
  EXPECT_EQ(plan.buffers(static_cast<int>(view)).view_of(), memory);
  EXPECT_EQ(plan.outputs(2).buffer(), memory);
  EXPECT_EQ(plan.outputs(3).buffer(), view);
}

TEST(PlanResults, AnInputIsItselfAndWhatShowsItIsNot) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref all = g.Node("aten::alias", {x}, g.Meta({4}));
  g.Output(all).Output(x);
  const v1::Artifact plan = PlanOf(g);
  const v1::Buffer& view = plan.buffers(static_cast<int>(plan.outputs(0).buffer()));
  const v1::Buffer& input = plan.buffers(static_cast<int>(plan.outputs(1).buffer()));
  EXPECT_TRUE(input.has_input());
  EXPECT_EQ(view.view_of(), plan.outputs(1).buffer());
}

}  // namespace plan_results_test
}  // namespace tensord::testing
