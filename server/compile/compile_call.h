// SPDX-License-Identifier: Apache-2.0
// One request of the compile service; for its sources alone.
#ifndef TENSORD_SERVER_COMPILE_COMPILE_CALL_H_
#define TENSORD_SERVER_COMPILE_COMPILE_CALL_H_

#include <absl/strings/str_cat.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/compile/compile_service.h"
#include "server/traces/span_log.h"

namespace tensord::server {

// Of a key, for people.
inline constexpr size_t kShownDigits = 12;

// One request on its way.
struct CompileService::Call {
  v1::CompileReply* reply;
  Done done;
  uint64_t id;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  v1::Caller caller;
  std::string label;
  int nodes = 0;
  std::string key;
  Task task;             // until it is a flight's
  bool waiting = false;  // counted in in_flight
  // For its trace: when it came, what it did so far, when it began to wait for a compile (0: it did
  // not), and what that compile did.
  uint64_t came = ToNanoseconds(start);
  Marks marks;
  uint64_t joined = 0;
  std::shared_ptr<const CompileSpans> compile;
  const char* miss = nullptr;  // why the program was compiled that it waited for

  // Notes what it has done from `begun` to now, which it gives.
  uint64_t Mark(const char* name, uint64_t begun, const char* detail = "") {
    const uint64_t now = MonotonicNanoseconds();
    marks.push_back({name, begun, now, detail});
    return now;
  }

  // Who takes turns: a job with all of its processes, or a process without one.
  std::string Queue() const {
    return caller.job().empty() ? absl::StrCat("process ", caller.host(), " ", caller.pid())
                                : absl::StrCat("job ", caller.job());
  }
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_COMPILE_CALL_H_
