// SPDX-License-Identifier: Apache-2.0
// Misses of the service: each compile has a reason, which is counted, listed and said in the log.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "server/statistics/miss_reasons.h"
#include "tensord/v1/stats.pb.h"
#include "tests/unit/server/service_testing.h"

namespace tensord::server {
namespace miss_service_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class MissServiceTest : public ServiceTest {
 protected:
  // Those that were counted.
  static std::map<std::string, uint64_t> Misses(CompileService& service) {
    v1::Stats stats;
    service.FillStats(&stats);
    EXPECT_EQ(stats.misses_size(), static_cast<int>(kMissReasons.size()));
    std::map<std::string, uint64_t> counts;
    for (const v1::MissCount& miss : stats.misses()) {
      if (miss.count() > 0) counts[miss.reason()] = miss.count();
    }
    return counts;
  }
  static v1::ListMissesReply List(CompileService& service) {
    v1::ListMissesReply reply;
    service.ListMisses({}, &reply);
    return reply;
  }
};

TEST_F(MissServiceTest, EachCompileHasAReason) {
  auto service = Open();
  const auto first = Compile(*service, Request({"a", "b", "c"}));
  auto changed = Request({"a", "b", "c"});
  changed.mutable_options()->set_deterministic(true);
  changed.mutable_caller()->set_job("train");
  changed.mutable_caller()->set_pid(7);
  const auto second = Compile(*service, changed);
  EXPECT_THAT(Misses(*service), UnorderedElementsAre(Pair("new", 1), Pair("options", 1)));
  const auto listed = List(*service);
  ASSERT_EQ(listed.programs_size(), 2);
  const v1::ProgramMiss& miss = listed.programs(0);
  EXPECT_EQ(miss.key(), second->reply.program_key());
  EXPECT_EQ(miss.nearest(), first->reply.program_key());
  EXPECT_EQ(miss.label(), "test");
  EXPECT_EQ(miss.nodes(), 3u);
  EXPECT_EQ(miss.count(), 1u);
  EXPECT_GT(miss.last_unix(), 0);
  EXPECT_EQ(miss.caller().job(), "train");
  EXPECT_EQ(miss.caller().pid(), 7u);
  ASSERT_EQ(miss.differences_size(), 1);
  EXPECT_EQ(miss.differences(0).field(), "options.deterministic");
  EXPECT_EQ(listed.programs(1).reason(), "new");
}

TEST_F(MissServiceTest, HitsAndWhoJoinsAreNoMisses) {
  auto service = Open();
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(Send(*service, Request({"a"}, "slow")));
  for (const auto& answer : answers) answer->done.WaitForNotification();
  Compile(*service, Request({"a"}, "slow"));
  EXPECT_THAT(Misses(*service), ElementsAre(Pair("new", 1)));
}

TEST_F(MissServiceTest, ACompileThatFailsIsAMissToo) {
  auto service = Open();
  EXPECT_FALSE(Compile(*service, Request({"a"}, "crash"))->status.ok());
  EXPECT_THAT(Misses(*service), ElementsAre(Pair("new", 1)));
  EXPECT_EQ(List(*service).programs_size(), 1);
}

TEST_F(MissServiceTest, TheNextDaemonSaysThatTheToolchainIsAnother) {
  Compile(*Open(), Request({"a"}));
  setenv("FAKE_TOOLCHAIN", "another toolchain", 1);
  ServiceOptions options;
  options.pool = Pool();
  options.cxx = "another c++";
  auto store = store::Store::Open({folder_ + "/store"});
  ASSERT_TRUE(store.ok()) << store.status();
  CompileService service(options, *std::move(store), "");
  Compile(service, Request({"a"}));
  unsetenv("FAKE_TOOLCHAIN");
  EXPECT_THAT(Misses(service), ElementsAre(Pair("toolchain", 1)));
  EXPECT_EQ(List(service).programs(0).differences(0).wanted(), "another toolchain");
}

TEST_F(MissServiceTest, TheLogNamesTheReason) {
  ::testing::internal::CaptureStdout();
  auto service = Open();
  Compile(*service, Request({"a"}));
  Compile(*service, Request({"a"}));
  service.reset();
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, ::testing::ContainsRegex("event=compile .*outcome=compiled .*miss=new "));
}

}  // namespace miss_service_test
}  // namespace tensord::server
