// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/chrome_trace.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace tensord::server {
namespace chrome_trace_test {

using nlohmann::json;

v1::Span SpanOf(v1::Span::Process process, uint32_t pid, const std::string& track,
                const std::string& name, uint64_t start, uint64_t nanoseconds) {
  v1::Span span;
  span.set_process(process);
  span.set_pid(pid);
  span.set_track(track);
  span.set_name(name);
  span.set_start_nanoseconds(start);
  span.set_nanoseconds(nanoseconds);
  return span;
}

v1::RequestTrace* AddRequest(v1::Traces* traces, uint64_t id, uint32_t pid,
                             const std::string& host = "here") {
  v1::RequestTrace* trace = traces->add_requests();
  trace->set_request_id(id);
  trace->set_program_key("\x12\x34");
  trace->set_label("forward");
  trace->mutable_caller()->set_pid(pid);
  trace->mutable_caller()->set_host(host);
  trace->mutable_caller()->set_job("train");
  trace->mutable_caller()->set_rank(3);
  *trace->add_spans() = SpanOf(v1::Span::JOB, pid, "capture", "capture", 10'000, 5'500);
  *trace->add_spans() =
      SpanOf(v1::Span::DAEMON, 2, "request " + std::to_string(id), "request", 12'000 + id, 3'000);
  *trace->add_spans() = SpanOf(v1::Span::WORKER, 3, "compiler", "lower", 13'000, 1'000);
  return trace;
}

json Events(const v1::Traces& traces) { return json::parse(ChromeTrace(traces))["traceEvents"]; }

json Find(const json& events, const std::string& name) {
  for (const json& event : events) {
    if (event["name"] == name) return event;
  }
  return nullptr;
}

TEST(ChromeTraceTest, ASpanIsACompleteEventInMicroseconds) {
  v1::Traces traces;
  v1::RequestTrace* trace = AddRequest(&traces, 1, 1);
  trace->mutable_spans(1)->set_detail("hit");
  const json events = Events(traces);
  const json capture = Find(events, "capture");
  EXPECT_EQ(capture["ph"], "X");
  EXPECT_EQ(capture["ts"], 0.0);
  EXPECT_EQ(capture["dur"], 5.5);
  EXPECT_EQ(capture["pid"], 1);
  const json request = Find(events, "request: hit");
  EXPECT_EQ(request["ts"], 2.001);
  EXPECT_EQ(request["args"]["program"], "1234");
  EXPECT_EQ(request["args"]["request"], 1);
  EXPECT_EQ(request["args"]["label"], "forward");
  for (const json& event : events) {
    for (const char* field : {"name", "ph", "pid", "tid"}) EXPECT_TRUE(event.contains(field));
    EXPECT_TRUE(event["ph"] == "X" || event["ph"] == "M");
  }
}

TEST(ChromeTraceTest, ProcessesAndTracksHaveNames) {
  v1::Traces traces;
  AddRequest(&traces, 1, 1);
  std::set<std::string> processes, tracks;
  for (const json& event : Events(traces)) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
  }
  EXPECT_EQ(processes, (std::set<std::string>{"job train, rank 3 (here, pid 1)", "tensord",
                                              "tensord-worker 3"}));
  EXPECT_EQ(tracks, (std::set<std::string>{"capture", "request 1", "compiler"}));
}

TEST(ChromeTraceTest, WhatSeveralRequestsHaveIsThereOnce) {
  v1::Traces traces;
  AddRequest(&traces, 1, 1);
  AddRequest(&traces, 2, 1);
  int lower = 0, requests = 0, captures = 0;
  for (const json& event : Events(traces)) {
    lower += event["name"] == "lower";
    requests += event["name"] == "request";
    captures += event["name"] == "capture";
  }
  EXPECT_EQ(lower, 1);
  EXPECT_EQ(requests, 2);
  EXPECT_EQ(captures, 1);
}

TEST(ChromeTraceTest, ProcessesOfOtherContainersAreOthers) {
  v1::Traces traces;
  AddRequest(&traces, 1, 2);           // the daemon's own number
  AddRequest(&traces, 2, 2, "there");  // and once more
  std::set<int> pids;
  int names = 0;
  for (const json& event : Events(traces)) {
    pids.insert(event["pid"].get<int>());
    names += event["name"] == "process_name";
  }
  EXPECT_EQ(names, 4);
  EXPECT_EQ(pids.size(), 4u);
}

TEST(ChromeTraceTest, OfNothingThereAreNoEvents) {
  EXPECT_EQ(json::parse(ChromeTrace({}))["traceEvents"], json::array());
}

TEST(ChromeTraceTest, TextThatIsNoTextDoesNoHarm) {
  v1::Traces traces;
  AddRequest(&traces, 1, 1)->set_label("\xff\"\n");
  EXPECT_EQ(Events(traces).size(), 3u + 3 * 2 + 3 * 2);
}

}  // namespace chrome_trace_test
}  // namespace tensord::server
