// SPDX-License-Identifier: Apache-2.0
#include "server/traces/span_log.h"

#include <unistd.h>

#include <algorithm>

#include "server/traces/check_spans.h"

namespace tensord::server {
namespace {

// Spans around those of workers end behind them, and are not to be the ones without room.
constexpr size_t kDaemonsOwn = 50;

}  // namespace

void SpanLog::Add(const char* name, uint64_t start, uint64_t end) {
  if (!HasRoom()) return;
  v1::Span& span = spans_.emplace_back();
  span.set_name(name);
  span.set_start_nanoseconds(start);
  span.set_nanoseconds(end - start);
  span.set_process(v1::Span::DAEMON);
  span.set_pid(static_cast<uint32_t>(getpid()));
  span.set_track(track_);
}

void SpanLog::TakeFromWorker(const SpanList& spans, uint32_t pid, const std::string& track,
                             uint64_t start) {
  const uint64_t now = MonotonicNanoseconds();
  for (const v1::Span& said : spans) {
    if (spans_.size() + kDaemonsOwn >= kMostCompileSpans) return;
    if (said.start_nanoseconds() < start || !HasEndedBy(said, now)) continue;
    v1::Span& span = spans_.emplace_back(said);
    span.set_process(v1::Span::WORKER);
    span.set_pid(pid);
    if (span.track().empty()) span.set_track(track);
    Shorten(&span);
  }
}

void SpanLog::Take(SpanLog&& other) {
  for (v1::Span& span : other.spans_) {
    if (HasRoom()) spans_.push_back(std::move(span));
  }
  other.spans_.clear();
}

SpanList SpanLog::Stored() const {
  SpanList stored(spans_.begin(), spans_.end());
  for (v1::Span& span : stored) {
    span.set_start_nanoseconds(span.start_nanoseconds() -
                               std::min(begun_, span.start_nanoseconds()));
  }
  return stored;
}

}  // namespace tensord::server
