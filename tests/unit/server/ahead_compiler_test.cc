// SPDX-License-Identifier: Apache-2.0
#include "server/ahead/ahead_compiler.h"

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "server/ahead/targets.h"
#include "tests/unit/server/service_testing.h"

namespace tensord::server {
namespace ahead_compiler_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Target Gpu(uint32_t multiprocessors = 132) {
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  target.mutable_cuda()->set_multiprocessors(multiprocessors);
  return target;
}

v1::Target Cpu() {
  v1::Target target;
  target.mutable_cpu()->set_isa(v1::ISA_AVX2);
  return target;
}

class AheadCompilerTest : public ServiceTest {
 protected:
  static AheadGraph GraphOf(const std::string& op, bool on_gpu, const std::string& order = "") {
    AheadGraph graph{op, "forward"};
    graph.graph = Request({op}, order).graph();
    if (on_gpu) {
      graph.graph.mutable_nodes(0)->add_outputs()->set_device(v1::DEVICE_TYPE_CUDA);
    }
    graph.options.set_deterministic(true);
    return graph;
  }

  // What becomes of the graphs.
  std::vector<AheadResult> Run(CompileService& service, AheadOptions options,
                               const std::vector<AheadGraph>& graphs) {
    std::vector<AheadResult> results;
    AheadCompiler compiler(&service, std::move(options),
                           [&](const AheadResult& result) { results.push_back(result); });
    for (const AheadGraph& graph : graphs) compiler.Compile(graph);
    compiler.Finish();
    return results;
  }
  static std::vector<std::string> Outcomes(const std::vector<AheadResult>& results) {
    std::vector<std::string> outcomes;
    for (const AheadResult& result : results) outcomes.push_back(NameOf(result.outcome));
    return outcomes;
  }
};

// The request of a job with the whole target finds it, by whatever daemon of that store; that of a
// job on another GPU of the same architecture does not.
TEST_F(AheadCompilerTest, AJobOfThatTargetFindsItAndNoOther) {
  const AheadGraph graph = GraphOf("a", true);
  std::string key;
  {
    const auto service = Open();
    AheadOptions options;
    options.targets = {Gpu()};
    const auto results = Run(*service, options, {graph});
    ASSERT_THAT(Outcomes(results), ElementsAre("made"));
    EXPECT_EQ(results[0].target, TargetName(Gpu()));
    EXPECT_EQ(results[0].kernels, 1u);
    EXPECT_EQ(results[0].kernels_made, 1u);
    key = results[0].key;
    service->Abort();
  }
  const auto daemon = Open();
  v1::CompileRequest request;
  *request.mutable_graph() = graph.graph;
  *request.mutable_target() = Gpu();
  *request.mutable_options() = graph.options;
  request.mutable_caller()->set_job("train");
  const auto answer = Compile(*daemon, request);
  EXPECT_EQ(answer->reply.outcome(), v1::CompileReply::HIT);
  EXPECT_EQ(answer->reply.program_key(), key);
  *request.mutable_target() = Gpu(114);
  EXPECT_EQ(Compile(*daemon, request)->reply.outcome(), v1::CompileReply::COMPILED);
  *request.mutable_target() = Gpu();
  request.mutable_options()->set_deterministic(false);
  EXPECT_EQ(Compile(*daemon, request)->reply.outcome(), v1::CompileReply::COMPILED);
  daemon->Abort();
}

TEST_F(AheadCompilerTest, EachGraphIsForTheTargetsOfItsKind) {
  const auto service = Open();
  AheadOptions options;
  options.targets = {Gpu(), Cpu(), Gpu(114)};
  const auto results = Run(*service, options, {GraphOf("a", true), GraphOf("b", false)});
  EXPECT_THAT(Outcomes(results), ElementsAre("made", "made", "made"));
  EXPECT_EQ(results[0].target, TargetName(Gpu()));
  EXPECT_EQ(results[1].target, TargetName(Gpu(114)));
  EXPECT_EQ(results[2].target, TargetName(Cpu()));
  options.targets = {Gpu()};
  const auto skipped = Run(*service, options, {GraphOf("b", false)});
  EXPECT_THAT(Outcomes(skipped), ElementsAre("skipped"));
  EXPECT_THAT(skipped[0].why, HasSubstr("the CPU"));
  service->Abort();
}

TEST_F(AheadCompilerTest, ATargetThatCameWithAGraphCountsUnlessOthersAreSaid) {
  const auto service = Open();
  AheadGraph graph = GraphOf("a", true);
  graph.target = Gpu(114);
  AheadOptions options;
  options.targets = {Gpu()};
  EXPECT_EQ(Run(*service, options, {graph})[0].target, TargetName(Gpu()));
  options.own_first = true;
  EXPECT_EQ(Run(*service, options, {graph})[0].target, TargetName(Gpu(114)));
  graph.target.reset();
  EXPECT_EQ(Run(*service, options, {graph})[0].target, TargetName(Gpu()));
  service->Abort();
}

TEST_F(AheadCompilerTest, OneThatFailsSaysWhyAndTheOthersAreMade) {
  const auto service = Open();
  AheadOptions options;
  options.targets = {Cpu()};
  options.most_at_once = 3;
  const auto results = Run(*service, options,
                           {GraphOf("a", false), GraphOf("b", false, "invalid"),
                            GraphOf("c", false, "slow"), GraphOf("d", false)});
  ASSERT_THAT(Outcomes(results), ElementsAre("made", "failed", "made", "made"));
  EXPECT_THAT(results[1].why, HasSubstr("INVALID_ARGUMENT: node 'invalid' (aten::nothing)"));
  EXPECT_EQ(results[1].key, "");
  EXPECT_EQ(results[2].name, "c") << "in the order in which they came";
  service->Abort();
}

TEST_F(AheadCompilerTest, EqualGraphsAreCompiledOnce) {
  const auto service = Open();
  AheadOptions options;
  options.targets = {Cpu()};
  AheadGraph renamed = GraphOf("a", false);
  renamed.graph.mutable_nodes(0)->set_source("model.py:7 in forward");
  const auto results = Run(*service, options, {GraphOf("a", false), GraphOf("a", false), renamed});
  EXPECT_THAT(Outcomes(results), ElementsAre("made", "hit"));
  EXPECT_EQ(results[0].key, results[1].key);
  EXPECT_EQ(Jobs("compile"), 1);
  service->Abort();
}

TEST_F(AheadCompilerTest, ProgramsAreAddedToWhatTheJobUsed) {
  const auto service = Open();
  AheadOptions options;
  options.targets = {Cpu()};
  options.job = "train";
  const auto results = Run(*service, options, {GraphOf("a", false)});
  service->jobs()->Flush();
  const v1::JobList list = ReadJobList(*service->store(), "train").value();
  ASSERT_EQ(list.used_size(), 1);
  EXPECT_EQ(list.used(0).name(), "program/" + ToHex(results[0].key));
  service->Abort();
}

}  // namespace ahead_compiler_test
}  // namespace tensord::server
