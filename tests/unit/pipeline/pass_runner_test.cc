// SPDX-License-Identifier: Apache-2.0
// What the runner does around passes and their parts: a short pipeline of a test's own.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "compiler/pipeline.h"

namespace tensord::testing {
namespace pass_runner_test {

using compiler::CompileState;
using compiler::Pass;
using ::testing::ElementsAre;

// Verifiers are plain functions: they count here.
int verified = 0;
absl::Status Holds(const CompileState& /*state*/) {
  ++verified;
  return absl::OkStatus();
}
absl::Status IsBroken(const CompileState& /*state*/) { return absl::InternalError("no such node"); }

Pass Part(const std::string& name, bool applies, std::vector<std::string>* ran) {
  Pass part{.name = name};
  part.run = [name, ran](CompileState&) {
    ran->push_back(name);
    return absl::OkStatus();
  };
  part.applies = [applies](const CompileState&) { return applies; };
  return part;
}

struct Outcome {
  absl::Status status;
  std::vector<std::string> ran, seen, stages;
};

// Behind a first pass that does nothing, a pass of two parts.
Outcome RunParts(bool first_applies, bool second_applies,
                 absl::Status (*verify)(const CompileState&) = Holds) {
  Outcome run;
  verified = 0;
  const std::vector<Pass> passes = {
      {.name = "import", .run = [](CompileState&) { return absl::OkStatus(); }},
      {.name = "rewrite",
       .verify = verify,
       .parts = {Part("rewrite/one", first_applies, &run.ran),
                 Part("rewrite/two", second_applies, &run.ran)}}};
  CompileState state{.job = nullptr};
  run.status = compiler::RunPasses(
      passes, state, [&](const Pass& pass, const CompileState&) { run.seen.push_back(pass.name); });
  for (const v1::StageTime& stage : state.result.stages()) run.stages.push_back(stage.stage());
  return run;
}

TEST(PassRunner, VerifiesBehindEachPartThatRan) {
  const Outcome both = RunParts(true, true);
  EXPECT_TRUE(both.status.ok()) << both.status;
  EXPECT_THAT(both.ran, ElementsAre("rewrite/one", "rewrite/two"));
  EXPECT_EQ(verified, 2);
  EXPECT_THAT(both.seen, ElementsAre("import", "rewrite/one", "rewrite/two", "rewrite"));
  const Outcome one = RunParts(false, true);
  EXPECT_THAT(one.ran, ElementsAre("rewrite/two"));
  EXPECT_EQ(verified, 1);
  EXPECT_THAT(one.seen, ElementsAre("import", "rewrite/two", "rewrite"));
  EXPECT_THAT(one.stages, ElementsAre("import", "rewrite/two", "rewrite", "verify"));
}

TEST(PassRunner, VerifiesAPassWhosePartsAreAllForOtherTargetsOnce) {
  const Outcome none = RunParts(false, false);
  EXPECT_TRUE(none.status.ok()) << none.status;
  EXPECT_THAT(none.ran, ElementsAre());
  EXPECT_EQ(verified, 1);
  EXPECT_THAT(none.seen, ElementsAre("import", "rewrite"));
  EXPECT_THAT(none.stages, ElementsAre("import", "rewrite", "verify"));
  EXPECT_EQ(RunParts(false, false, IsBroken).status,
            absl::InternalError("rewrite: broke what it promises: no such node"));
}

TEST(PassRunner, SpansOfPartsAndVerifiersLieWithinTheirPass) {
  std::vector<std::string> ran;
  const std::vector<Pass> passes = {
      {.name = "import", .run = [](CompileState&) { return absl::OkStatus(); }, .verify = Holds},
      {.name = "rewrite",
       .verify = Holds,
       .parts = {Part("rewrite/one", true, &ran), Part("rewrite/two", true, &ran)}}};
  CompileState state{.job = nullptr};
  ASSERT_TRUE(compiler::RunPasses(passes, state).ok());
  std::vector<std::string> names;
  for (const v1::Span& span : state.result.spans()) {
    names.push_back(span.detail().empty() ? span.name() : span.name() + " of " + span.detail());
  }
  EXPECT_THAT(names,
              ElementsAre("import", "verify of import", "rewrite/one", "verify of rewrite/one",
                          "rewrite/two", "verify of rewrite/two", "rewrite"));
  // By their ends; each of the rewrite's begins behind the one before, and it around them.
  uint64_t last = 0;
  const v1::Span& rewrite = state.result.spans(6);
  for (const v1::Span& span : state.result.spans()) {
    const uint64_t end = span.start_nanoseconds() + span.nanoseconds();
    EXPECT_GE(end, last);
    if (&span != &rewrite) {
      EXPECT_GE(span.start_nanoseconds(), last);
    }
    last = end;
  }
  EXPECT_LE(rewrite.start_nanoseconds(), state.result.spans(2).start_nanoseconds());
}

TEST(PassRunner, NamesThePartThatBrokeAPromiseAndEndsThere) {
  const Outcome broken = RunParts(true, true, IsBroken);
  EXPECT_EQ(broken.status,
            absl::InternalError("rewrite/one: broke what it promises: no such node"));
  EXPECT_THAT(broken.ran, ElementsAre("rewrite/one"));
  EXPECT_THAT(broken.seen, ElementsAre("import"));
}

}  // namespace pass_runner_test
}  // namespace tensord::testing
