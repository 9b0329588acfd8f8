// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/sha256.h"

namespace tensord::server {
namespace {

using nlohmann::json;

// Numbers of the kernel's processes are smaller (PID_MAX_LIMIT).
constexpr uint32_t kFirstFreePid = 1 << 22;

std::string NameOf(const v1::Span& span, const v1::Caller& caller) {
  if (span.process() == v1::Span::DAEMON) return "tensord";
  if (span.process() == v1::Span::WORKER) return fmt::format("tensord-worker {}", span.pid());
  const std::string job =
      caller.job().empty() ? "job" : fmt::format("job {}, rank {}", caller.job(), caller.rank());
  return fmt::format("{} ({}, pid {})", job, caller.host(), span.pid());
}

// Where a process stands: those who ask above who answers.
int OrderOf(const v1::Span& span, const v1::Caller& caller) {
  constexpr int kDaemon = 1 << 20;
  if (span.process() == v1::Span::DAEMON) return kDaemon;
  if (span.process() == v1::Span::WORKER) return kDaemon + 1;
  return static_cast<int>(std::min<uint32_t>(caller.rank(), kDaemon - 1));
}

json Metadata(const char* name, uint32_t pid, uint32_t tid, const char* key, const json& value) {
  return {{"name", name}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{key, value}}}};
}

class Writer {
 public:
  explicit Writer(uint64_t begin) : begin_(begin) {}

  void Add(const v1::RequestTrace& trace) {
    for (const v1::Span& span : trace.spans()) Add(trace, span);
  }
  json Take() { return std::move(events_); }

 private:
  void Add(const v1::RequestTrace& trace, const v1::Span& span) {
    const uint32_t pid = PidOf(trace.caller(), span);
    const uint32_t tid = TidOf(pid, span.track());
    const std::string name =
        span.detail().empty() ? span.name() : fmt::format("{}: {}", span.name(), span.detail());
    const auto seen = seen_.emplace(tid, span.start_nanoseconds(), span.nanoseconds(), name);
    if (!seen.second) return;
    json args = {{"program", ToHex(trace.program_key())}, {"label", trace.label()}};
    if (trace.request_id() != 0) args["request"] = trace.request_id();
    if (span.name() == "request" && !trace.error().empty()) args["error"] = trace.error();
    events_.push_back({{"name", name},
                       {"cat", span.name()},
                       {"ph", "X"},
                       {"ts", Microseconds(span.start_nanoseconds() - begin_)},
                       {"dur", Microseconds(span.nanoseconds())},
                       {"pid", pid},
                       {"tid", tid},
                       {"args", std::move(args)}});
  }

  // The process's own number, unless another one's, of another container say, is the same.
  uint32_t PidOf(const v1::Caller& caller, const v1::Span& span) {
    const bool asks = span.process() == v1::Span::JOB;
    const Process process = {span.process(), asks ? caller.host() : "", span.pid()};
    const auto [place, is_new] = pids_.try_emplace(process, span.pid());
    if (!is_new) return place->second;
    if (!taken_.insert(place->second).second) place->second = kFirstFreePid + free_++;
    const uint32_t pid = place->second;
    events_.push_back(Metadata("process_name", pid, 0, "name", NameOf(span, caller)));
    events_.push_back(Metadata("process_sort_index", pid, 0, "sort_index", OrderOf(span, caller)));
    return pid;
  }

  // Of the whole trace, and no number of a process.
  uint32_t TidOf(uint32_t pid, const std::string& track) {
    const auto next = static_cast<uint32_t>(tids_.size() + 1);
    const auto [place, is_new] = tids_.try_emplace({pid, track}, next);
    if (is_new) {
      events_.push_back(Metadata("thread_name", pid, next, "name", track));
      events_.push_back(Metadata("thread_sort_index", pid, next, "sort_index", next));
    }
    return place->second;
  }

  static double Microseconds(uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;
  }

  using Process = std::tuple<int, std::string, uint32_t>;
  const uint64_t begin_;
  json events_ = json::array();
  std::map<Process, uint32_t> pids_;
  std::set<uint32_t> taken_;
  uint32_t free_ = 0;
  std::map<std::pair<uint32_t, std::string>, uint32_t> tids_;
  std::set<std::tuple<uint32_t, uint64_t, uint64_t, std::string>> seen_;
};

}  // namespace

std::string ChromeTrace(const v1::Traces& traces) {
  uint64_t begin = std::numeric_limits<uint64_t>::max();
  for (const v1::RequestTrace& trace : traces.requests()) {
    for (const v1::Span& span : trace.spans()) begin = std::min(begin, span.start_nanoseconds());
  }
  Writer writer(begin);
  for (const v1::RequestTrace& trace : traces.requests()) writer.Add(trace);
  const json trace = {{"traceEvents", writer.Take()}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tensord::server
