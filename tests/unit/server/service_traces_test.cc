// SPDX-License-Identifier: Apache-2.0
// What the service notes of requests: of a compile, a hit, those that wait together, a failure; and
// what is stored of it with the program.
#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "server/compile/compile_service.h"
#include "tests/unit/server/service_testing.h"

namespace tensord::server {
namespace service_traces_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Not;

class ServiceTracesTest : public ServiceTest {
 protected:
  // Of one process, as a job's are.
  static v1::CompileRequest Request(const std::vector<std::string>& ops,
                                    const std::string& order = "") {
    v1::CompileRequest request = ServiceTest::Request(ops, order);
    request.mutable_caller()->set_pid(77);
    return request;
  }

  static v1::GetTracesRequest Of(const std::string& key, uint32_t limit = 0) {
    v1::GetTracesRequest request;
    request.set_key_prefix(key);
    request.set_limit(limit);
    return request;
  }
  static v1::Traces Get(CompileService& service, const v1::GetTracesRequest& request) {
    v1::Traces traces;
    const absl::Status status = service.GetTraces(request, &traces);
    EXPECT_TRUE(status.ok()) << status;
    ExpectNested(traces);
    return traces;
  }

  static uint64_t End(const v1::Span& span) {
    return span.start_nanoseconds() + span.nanoseconds();
  }
  // Of each track; and all of the daemon's within the request, where there is one.
  static void ExpectNested(const v1::Traces& traces) {
    for (const v1::RequestTrace& trace : traces.requests()) {
      for (const v1::Span& one : trace.spans()) {
        for (const v1::Span& other : trace.spans()) {
          if (one.track() != other.track() || one.pid() != other.pid()) continue;
          const bool apart =
              End(one) <= other.start_nanoseconds() || End(other) <= one.start_nanoseconds();
          const bool within =
              one.start_nanoseconds() >= other.start_nanoseconds() && End(one) <= End(other);
          const bool around =
              other.start_nanoseconds() >= one.start_nanoseconds() && End(other) <= End(one);
          EXPECT_TRUE(apart || within || around) << one.name() << " and " << other.name();
        }
      }
    }
  }
  static std::multiset<std::string> Names(const v1::RequestTrace& trace) {
    std::multiset<std::string> names;
    for (const v1::Span& span : trace.spans()) names.insert(span.name());
    return names;
  }
  static const v1::Span& Find(const v1::RequestTrace& trace, const std::string& name) {
    for (const v1::Span& span : trace.spans()) {
      if (span.name() == name) return span;
    }
    ADD_FAILURE() << "there is no span " << name;
    return v1::Span::default_instance();
  }
};

TEST_F(ServiceTracesTest, ACompileHasItsStagesInDaemonAndWorkers) {
  auto service = Open();
  const auto answer = Compile(*service, Request({"slow a", "slow b"}));
  ASSERT_TRUE(answer->status.ok()) << answer->status;
  const v1::Traces traces = Get(*service, Of(answer->reply.program_key()));
  ASSERT_EQ(traces.requests_size(), 1);
  const v1::RequestTrace& trace = traces.requests(0);
  EXPECT_EQ(trace.request_id(), answer->reply.request_id());
  EXPECT_EQ(trace.outcome(), "compiled");
  EXPECT_EQ(trace.label(), "test");
  EXPECT_EQ(trace.caller().pid(), 77u);
  EXPECT_GT(trace.start_unix_nanoseconds(), 0);
  const std::multiset<std::string> wanted = {
      "request",    "toolchain", "parse", "key",     "look-up in the store", "queue", "flight",
      "compile",    "sources",   "fake",  "kernels", "look-up of kernels",   "jit",   "jit/kernel",
      "jit/kernel", "publish"};
  EXPECT_THAT(wanted, IsSubsetOf(Names(trace)));
  // Parents hold their children, over processes.
  const v1::Span& request = Find(trace, "request");
  for (const v1::Span& span : trace.spans()) {
    EXPECT_GE(span.start_nanoseconds(), request.start_nanoseconds()) << span.name();
    EXPECT_LE(End(span), End(request)) << span.name();
  }
  for (const auto& [child, parent] : std::map<std::string, std::string>{{"fake", "sources"},
                                                                        {"jit/kernel", "jit"},
                                                                        {"jit", "kernels"},
                                                                        {"sources", "compile"},
                                                                        {"publish", "compile"},
                                                                        {"compile", "flight"}}) {
    EXPECT_GE(Find(trace, child).start_nanoseconds(), Find(trace, parent).start_nanoseconds());
    EXPECT_LE(End(Find(trace, child)), End(Find(trace, parent))) << child;
  }
  EXPECT_EQ(Find(trace, "fake").process(), v1::Span::WORKER);
  EXPECT_NE(Find(trace, "fake").pid(), Find(trace, "jit").pid());
  // Two workers made them, side by side.
  std::set<uint32_t> workers;
  for (const v1::Span& span : trace.spans()) {
    if (span.name() == "jit/kernel") workers.insert(span.pid());
  }
  EXPECT_EQ(workers.size(), 2u);
}

TEST_F(ServiceTracesTest, AHitWaitsForNoCompile) {
  auto service = Open();
  Compile(*service, Request({"a"}));
  const auto answer = Compile(*service, Request({"a"}));
  ASSERT_EQ(answer->reply.outcome(), v1::CompileReply::HIT);
  const v1::Traces last = Get(*service, Of("", 1));
  ASSERT_EQ(last.requests_size(), 1);
  EXPECT_EQ(last.requests(0).outcome(), "hit");
  EXPECT_EQ(Names(last.requests(0)),
            (std::multiset<std::string>{"request", "parse", "key", "look-up in the store"}));
  EXPECT_EQ(Find(last.requests(0), "look-up in the store").detail(), "found");
  EXPECT_EQ(Get(*service, Of(answer->reply.program_key())).requests_size(), 2);
}

TEST_F(ServiceTracesTest, ThoseWhoWaitTogetherHaveTheSameCompile) {
  auto service = Open();
  Compile(*service, Request({"warm up"}));
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(Send(*service, Request({"a"}, "slow")));
  for (const auto& answer : answers) answer->done.WaitForNotification();
  const v1::Traces traces = Get(*service, Of(answers[0]->reply.program_key()));
  ASSERT_EQ(traces.requests_size(), 3);
  for (const v1::RequestTrace& trace : traces.requests()) {
    EXPECT_EQ(Find(trace, "sources").start_nanoseconds(),
              Find(traces.requests(0), "sources").start_nanoseconds());
    EXPECT_LE(End(Find(trace, "flight")), End(Find(trace, "request")));
  }
}

TEST_F(ServiceTracesTest, AFailureSaysHowFarItCame) {
  auto service = Open();
  Compile(*service, Request({"a"}, "jit_fail"));
  const v1::RequestTrace failed = Get(*service, Of("", 1)).requests(0);
  EXPECT_EQ(failed.outcome(), "failed");
  EXPECT_THAT(failed.error(), HasSubstr("does not compile"));
  EXPECT_THAT(Names(failed), Contains("fake"));
  EXPECT_THAT(Names(failed), Not(Contains("publish")));
  Compile(*service, Request({"b"}, "crash"));
  const v1::RequestTrace crashed = Get(*service, Of("", 1)).requests(0);
  EXPECT_THAT(Names(crashed), Contains("sources"));
  EXPECT_THAT(Names(crashed), Not(Contains("fake")));
}

TEST_F(ServiceTracesTest, TheNextDaemonHasWhatIsStored) {
  std::string key;
  {
    auto service = Open();
    key = Compile(*service, Request({"a"}))->reply.program_key();
  }
  auto service = Open();
  v1::Traces traces = Get(*service, Of(key.substr(0, 4)));
  ASSERT_EQ(traces.requests_size(), 1);
  const v1::RequestTrace& stored = traces.requests(0);
  EXPECT_EQ(stored.request_id(), 0u);
  EXPECT_EQ(stored.outcome(), "compiled");
  EXPECT_THAT((std::multiset<std::string>{"fake", "sources", "kernels", "jit", "jit/kernel"}),
              IsSubsetOf(Names(stored)));
  for (const v1::Span& span : stored.spans()) {
    EXPECT_LT(span.start_nanoseconds(), 60'000'000'000u);  // since the compile began
  }
  v1::GetProgramRequest request;
  request.set_key_prefix(key);
  v1::ProgramDetail detail;
  ASSERT_TRUE(service->GetProgram(request, &detail).ok());
  EXPECT_EQ(detail.spans_size(), stored.spans_size());
  // Once somebody has asked, his request is what there is.
  Compile(*service, Request({"a"}));
  traces = Get(*service, Of(key));
  ASSERT_EQ(traces.requests_size(), 1);
  EXPECT_EQ(traces.requests(0).outcome(), "hit");
}

TEST_F(ServiceTracesTest, WhatNobodyKnowsIsNotFound) {
  auto service = Open();
  v1::Traces traces;
  EXPECT_TRUE(absl::IsNotFound(service->GetTraces({}, &traces)));
  EXPECT_TRUE(absl::IsNotFound(service->GetTraces(Of("abcd"), &traces)));
  EXPECT_TRUE(absl::IsInvalidArgument(service->GetTraces(Of("abc"), &traces)));
  Compile(*service, Request({"a"}));
  v1::GetTracesRequest of_job;
  of_job.set_job("nobody's");
  EXPECT_TRUE(absl::IsNotFound(service->GetTraces(of_job, &traces)));
}

}  // namespace service_traces_test
}  // namespace tensord::server
