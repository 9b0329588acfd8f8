// SPDX-License-Identifier: Apache-2.0
// Spans of the daemon's own work, on one track, as they end; and those of workers that did some of
// it. By one thread at a time.
#ifndef TENSORD_SERVER_TRACES_SPAN_LOG_H_
#define TENSORD_SERVER_TRACES_SPAN_LOG_H_

#include <google/protobuf/repeated_field.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensord/v1/trace.pb.h"

namespace tensord::server {

// Of a program's compile. More are not kept.
inline constexpr size_t kMostCompileSpans = 1000;

using SpanList = google::protobuf::RepeatedPtrField<v1::Span>;

inline uint64_t ToNanoseconds(std::chrono::steady_clock::time_point time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}
// The clock of spans: CLOCK_MONOTONIC.
inline uint64_t MonotonicNanoseconds() { return ToNanoseconds(std::chrono::steady_clock::now()); }

class SpanLog {
 public:
  explicit SpanLog(std::string track, uint64_t begun = MonotonicNanoseconds())
      : track_(std::move(track)), begun_(begun) {}

  // A span from here to its destructor.
  class Timed {
   public:
    Timed(const Timed&) = delete;
    ~Timed() { log_->Add(name_, start_, MonotonicNanoseconds()); }

   private:
    friend class SpanLog;
    Timed(SpanLog* log, const char* name) : log_(log), name_(name) {}
    SpanLog* const log_;
    const char* const name_;
    const uint64_t start_ = MonotonicNanoseconds();
  };
  [[nodiscard]] Timed Time(const char* name) { return Timed(this, name); }
  void Add(const char* name, uint64_t start, uint64_t end);

  // Those of a worker's reply that lie between `start` and now, when it was asked; a worker may be
  // anybody's by now. `track`: of those that name none.
  void TakeFromWorker(const SpanList& spans, uint32_t pid, const std::string& track,
                      uint64_t start);
  // Another log's.
  void Take(SpanLog&& other);

  // As they are kept with the program: from its compile's beginning.
  SpanList Stored() const;
  std::vector<v1::Span> TakeSpans() { return std::move(spans_); }

 private:
  bool HasRoom() const { return spans_.size() < kMostCompileSpans; }

  const std::string track_;
  const uint64_t begun_;
  std::vector<v1::Span> spans_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_TRACES_SPAN_LOG_H_
