// SPDX-License-Identifier: Apache-2.0
#include "server/traces/request_traces.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "server/traces/check_spans.h"
#include "server/traces/span_log.h"

namespace tensord::server {
namespace request_traces_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Caller CallerOf(uint32_t pid, const std::string& job = "") {
  v1::Caller caller;
  caller.set_pid(pid);
  caller.set_host("here");
  caller.set_job(job);
  return caller;
}

std::string Key(char digit) { return std::string(32, digit); }

SeenRequest Request(uint64_t id, char key, const char* outcome = "hit", uint32_t pid = 7,
                    const std::string& job = "") {
  SeenRequest request;
  request.id = id;
  request.key = Key(key);
  request.caller = CallerOf(pid, job);
  request.outcome = outcome;
  request.start = 1000;
  request.end = 5000;
  request.marks = {{"parse", 1000, 1500}, {"look-up in the store", 1500, 2000, "found"}};
  return request;
}

SeenRequest Compiled(uint64_t id, char key, size_t spans = 2) {
  SeenRequest request = Request(id, key, "compiled");
  SpanLog log("compile");
  for (size_t i = 0; i < spans; ++i) log.Add("jit", 2000 + i, 2001 + i);
  request.compile = std::make_shared<const CompileSpans>(log.TakeSpans());
  return request;
}

v1::PutSpansRequest Said(uint64_t id, char key, uint32_t pid = 7) {
  v1::PutSpansRequest request;
  *request.mutable_caller() = CallerOf(pid);
  v1::JobSpans& program = *request.add_programs();
  program.set_request_id(id);
  program.set_program_key(Key(key));
  v1::Span& span = *program.add_spans();
  span.set_name("load");
  span.set_track("program");
  span.set_process(v1::Span::JOB);
  span.set_pid(pid);
  span.set_start_nanoseconds(MonotonicNanoseconds() - 5000);
  span.set_nanoseconds(4000);
  return request;
}

v1::Traces Get(const RequestTraces& traces, const std::string& prefix = "",
               const std::string& job = "", uint32_t limit = 0) {
  v1::GetTracesRequest request;
  request.set_key_prefix(prefix);
  request.set_job(job);
  request.set_limit(limit);
  v1::Traces reply;
  EXPECT_TRUE(traces.Get(request, &reply).ok());
  return reply;
}

std::vector<uint64_t> Ids(const v1::Traces& traces) {
  std::vector<uint64_t> ids;
  for (const v1::RequestTrace& trace : traces.requests()) ids.push_back(trace.request_id());
  return ids;
}

TEST(RequestTracesTest, ARequestHasWhatItWaitedForAndWhatTheJobSays) {
  RequestTraces traces;
  traces.Add(Compiled(1, 'a'));
  EXPECT_EQ(*traces.Put(Said(1, 'a')), 1u);
  const v1::Traces reply = Get(traces, "aaaa");
  ASSERT_EQ(reply.requests_size(), 1);
  const v1::RequestTrace& trace = reply.requests(0);
  EXPECT_EQ(trace.outcome(), "compiled");
  EXPECT_EQ(trace.caller().pid(), 7u);
  std::vector<std::string> names;
  for (const v1::Span& span : trace.spans()) names.push_back(span.name());
  EXPECT_THAT(names, ElementsAre("request", "parse", "look-up in the store", "jit", "jit", "load"));
  EXPECT_EQ(trace.spans(0).track(), "request 1");
  EXPECT_EQ(trace.spans(0).nanoseconds(), 4000u);
  EXPECT_EQ(trace.spans(2).detail(), "found");
}

TEST(RequestTracesTest, OfAProgramTheLatestStayAndTheOneThatCompiledIt) {
  RequestTraces traces(8 << 20, 3);
  traces.Add(Compiled(1, 'a'));
  for (uint64_t id = 2; id < 9; ++id) traces.Add(Request(id, 'a'));
  EXPECT_THAT(Ids(Get(traces, "aaaa")), ElementsAre(1, 7, 8));
  traces.Add(Compiled(9, 'a'));  // it was evicted
  traces.Add(Request(10, 'a'));
  traces.Add(Request(11, 'a'));
  EXPECT_THAT(Ids(Get(traces, "aaaa")), ElementsAre(9, 10, 11));
  traces.Add(Request(12, 'a'));
  EXPECT_THAT(Ids(Get(traces, "aaaa")), ElementsAre(9, 11, 12));
}

TEST(RequestTracesTest, BytesAreBounded) {
  constexpr size_t kMost = 64 << 10;
  RequestTraces traces(kMost);
  for (uint64_t id = 1; id < 200; ++id) {
    SeenRequest request = Compiled(id, 'a', 50);
    request.key[0] = static_cast<char>(id);
    traces.Add(std::move(request));
    EXPECT_LE(traces.bytes(), kMost);
  }
  const std::vector<uint64_t> kept = Ids(Get(traces));
  EXPECT_GT(kept.size(), 3u);
  EXPECT_EQ(kept.back(), 199u);
  // One that is larger than all may be is not kept, and takes others along: so be it.
  traces.Add(Compiled(200, 'b', 1000));
  EXPECT_LE(traces.bytes(), kMost);
  EXPECT_THAT(Ids(Get(traces)), IsEmpty());
  EXPECT_EQ(traces.bytes(), 0u);
}

TEST(RequestTracesTest, WhatIsAskedForIsGiven) {
  RequestTraces traces;
  traces.Add(Request(1, 'a', "hit", 7, "train"));
  traces.Add(Request(2, 'b', "hit", 8, "train"));
  traces.Add(Request(3, 'a', "hit", 9));
  EXPECT_THAT(Ids(Get(traces)), ElementsAre(1, 2, 3));
  EXPECT_THAT(Ids(Get(traces, "", "train")), ElementsAre(1, 2));
  EXPECT_THAT(Ids(Get(traces, "aaaa")), ElementsAre(1, 3));
  EXPECT_THAT(Ids(Get(traces, "aaaa", "train")), ElementsAre(1));
  EXPECT_THAT(Ids(Get(traces, "", "", 1)), ElementsAre(3));
  EXPECT_THAT(Ids(Get(traces, "cccc")), IsEmpty());
  SeenRequest other = Request(4, 'a');
  other.key.back() = 'x';
  traces.Add(std::move(other));
  v1::GetTracesRequest request;
  request.set_key_prefix("aaaa");
  v1::Traces reply;
  EXPECT_TRUE(absl::IsFailedPrecondition(traces.Get(request, &reply)));
}

TEST(RequestTracesTest, WhatAnotherProcessSaysIsRefused) {
  RequestTraces traces;
  traces.Add(Request(1, 'a'));
  traces.Add(Request(2, 'a', "hit", 8));
  EXPECT_TRUE(absl::IsInvalidArgument(traces.Put(Said(1, 'a', 8)).status()));
  // All of it: a part that is right is not kept.
  v1::PutSpansRequest both = Said(1, 'a');
  both.MergeFrom(Said(2, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(traces.Put(both).status()));
  EXPECT_EQ(*traces.Put(Said(1, 'a')), 1u);
  // Said before, not kept any more, another program's: no error, and nothing.
  EXPECT_EQ(*traces.Put(Said(1, 'a')), 0u);
  EXPECT_EQ(*traces.Put(Said(5, 'a')), 0u);
  EXPECT_EQ(*traces.Put(Said(2, 'b')), 0u);
}

TEST(RequestTracesTest, AJobWhoseNameIsTooLongToBeKeptIsTheSameJob) {
  const std::string job(300, 'j');
  RequestTraces traces;
  traces.Add(Request(1, 'a', "hit", 7, job));
  v1::PutSpansRequest said = Said(1, 'a');
  said.mutable_caller()->set_job(job);
  EXPECT_EQ(*traces.Put(said), 1u);
}

// -- What may be said -----------------------------------------------------------------------------

absl::Status Check(const v1::PutSpansRequest& request) {
  return CheckPut(request, MonotonicNanoseconds());
}

TEST(CheckSpansTest, WhatIsTooMuchOrNobodysIsRefused) {
  EXPECT_TRUE(Check(Said(1, 'a')).ok());
  const auto refuses = [](auto change) {
    v1::PutSpansRequest request = Said(1, 'a');
    change(*request.mutable_programs(0), *request.mutable_programs(0)->mutable_spans(0));
    return absl::IsInvalidArgument(Check(request));
  };
  const uint64_t now = MonotonicNanoseconds();
  using Program = v1::JobSpans;
  using Span = v1::Span;
  EXPECT_TRUE(refuses([](Program& p, Span&) { p.set_program_key("short"); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.clear_name(); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_name(std::string(65, 'x')); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.clear_track(); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_track(std::string(65, 'x')); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_detail(std::string(257, 'x')); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_process(Span::DAEMON); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_pid(8); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_nanoseconds(~uint64_t{0}); }));
  EXPECT_TRUE(refuses([](Program&, Span& s) { s.set_start_nanoseconds(~uint64_t{0}); }));
  EXPECT_TRUE(refuses([&](Program&, Span& s) { s.set_start_nanoseconds(now + 60'000'000'000); }));
  EXPECT_TRUE(refuses([](Program& p, Span& s) {
    const Span one = s;
    for (int i = 0; i < kMostJobSpans; ++i) *p.add_spans() = one;
  }));
  v1::PutSpansRequest many;
  for (int i = 0; i <= kMostPutPrograms; ++i) many.MergeFrom(Said(1, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(Check(many)));
}

TEST(CheckSpansTest, SpansOfATrackLieWithinEachOther) {
  v1::PutSpansRequest request = Said(1, 'a');
  v1::JobSpans& program = *request.mutable_programs(0);
  const uint64_t start = program.spans(0).start_nanoseconds();
  const auto add = [&](uint64_t from, uint64_t nanoseconds, const char* track = "program") {
    v1::Span& span = *program.add_spans();
    span = program.spans(0);
    span.set_start_nanoseconds(start + from);
    span.set_nanoseconds(nanoseconds);
    span.set_track(track);
  };
  add(0, 1000);     // within
  add(1000, 3000);  // behind that
  add(1000, 3000);  // the same
  add(3500, 1000, "other");
  EXPECT_TRUE(Check(request).ok()) << Check(request);
  add(3500, 1000);  // longer than what it is in
  EXPECT_TRUE(absl::IsInvalidArgument(Check(request)));
}

TEST(SpanLogTest, OfAWorkerIsTakenWhatCanBe) {
  SpanList said;
  const uint64_t now = MonotonicNanoseconds();
  const auto add = [&](uint64_t start, uint64_t nanoseconds) {
    v1::Span& span = *said.Add();
    span.set_name(std::string(63, 'x') + "\u00e4" + std::string(100, 'y'));
    span.set_start_nanoseconds(start);
    span.set_nanoseconds(nanoseconds);
    span.set_process(v1::Span::DAEMON);
    span.set_pid(1);
  };
  add(now - 100, 50);
  add(now - 3000, 50);           // before it was asked
  add(now - 100, ~uint64_t{0});  // overflows
  add(now + 60'000'000'000, 1);  // of the future
  SpanLog log("compile", now - 2000);
  log.TakeFromWorker(said, 71, "compiler", now - 1000);
  const SpanList stored = log.Stored();
  ASSERT_EQ(stored.size(), 1);
  EXPECT_EQ(stored[0].name(), std::string(63, 'x'));  // no half letter
  EXPECT_EQ(stored[0].process(), v1::Span::WORKER);
  EXPECT_EQ(stored[0].pid(), 71u);
  EXPECT_EQ(stored[0].track(), "compiler");
  EXPECT_EQ(stored[0].start_nanoseconds(), 1900u);
  // What workers did leaves room for what was around it, which ends later.
  SpanList many;
  for (size_t i = 0; i < 2 * kMostCompileSpans; ++i) *many.Add() = said[0];
  log.TakeFromWorker(many, 71, "compiler", now - 1000);
  log.Add("kernels", now - 2000, now);
  EXPECT_EQ(log.Stored().rbegin()->name(), "kernels");
  for (size_t i = 0; i < 2 * kMostCompileSpans; ++i) log.Add("jit", now, now);
  EXPECT_EQ(log.TakeSpans().size(), kMostCompileSpans);
}

}  // namespace request_traces_test
}  // namespace tensord::server
