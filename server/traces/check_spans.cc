// SPDX-License-Identifier: Apache-2.0
#include "server/traces/check_spans.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/sha256.h"
#include "base/text.h"

namespace tensord::server {
namespace {

bool IsName(const std::string& text, size_t longest) {
  return !text.empty() && text.size() <= longest;
}

// Why a span cannot be the caller's; empty: it can.
absl::string_view FaultOf(const v1::Span& span, uint32_t pid, uint64_t now) {
  if (!IsName(span.name(), kLongestName)) return "has no name, or a long one";
  if (!IsName(span.track(), kLongestTrack)) return "has no track, or a long one";
  if (span.detail().size() > kLongestDetail) return "has a long detail";
  if (span.process() != v1::Span::JOB || span.pid() != pid) return "is another process's";
  if (!HasEndedBy(span, now)) return "has not ended";
  if (now - span.start_nanoseconds() >
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(kOldestSpan))) {
    return "is too old";
  }
  return "";
}

// Whether spans of one track lie within each other or behind each other.
bool Nest(const google::protobuf::RepeatedPtrField<v1::Span>& spans) {
  std::vector<const v1::Span*> order;
  for (const v1::Span& span : spans) order.push_back(&span);
  const auto by = [](const v1::Span* span) {
    return std::make_tuple(std::string_view(span->track()), span->start_nanoseconds(),
                           ~span->nanoseconds());
  };
  std::sort(order.begin(), order.end(),
            [&](const v1::Span* one, const v1::Span* other) { return by(one) < by(other); });
  const auto end = [](const v1::Span* span) {
    return span->start_nanoseconds() + span->nanoseconds();
  };
  std::vector<const v1::Span*> around;
  for (const v1::Span* span : order) {
    while (!around.empty() && (around.back()->track() != span->track() ||
                               end(around.back()) <= span->start_nanoseconds())) {
      around.pop_back();
    }
    if (!around.empty() && end(span) > end(around.back())) return false;
    around.push_back(span);
  }
  return true;
}

absl::Status CheckProgram(const v1::JobSpans& program, uint32_t pid, uint64_t now) {
  if (program.program_key().size() != kSha256Bytes) {
    return absl::InvalidArgumentError("a program's key has 32 bytes");
  }
  if (program.spans_size() > kMostJobSpans) {
    return absl::InvalidArgumentError(absl::StrCat("request ", program.request_id(), " has ",
                                                   program.spans_size(), " spans; at most ",
                                                   kMostJobSpans, " are kept"));
  }
  for (int i = 0; i < program.spans_size(); ++i) {
    if (const absl::string_view fault = FaultOf(program.spans(i), pid, now); !fault.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("span ", i, " of request ", program.request_id(), " ", fault));
    }
  }
  if (!Nest(program.spans())) {
    return absl::InvalidArgumentError(
        absl::StrCat("spans of request ", program.request_id(), " overlap on a track"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasEndedBy(const v1::Span& span, uint64_t now) {
  return span.start_nanoseconds() <= now && span.nanoseconds() <= now - span.start_nanoseconds();
}

void Shorten(v1::Span* span) {
  span->set_name(Cut(span->name(), kLongestName));
  span->set_track(Cut(span->track(), kLongestTrack));
  span->set_detail(Cut(span->detail(), kLongestDetail));
}

absl::Status CheckPut(const v1::PutSpansRequest& request, uint64_t now) {
  if (request.programs_size() > kMostPutPrograms) {
    return absl::InvalidArgumentError(absl::StrCat("spans of ", request.programs_size(),
                                                   " programs; at most ", kMostPutPrograms,
                                                   " come at once"));
  }
  for (const v1::JobSpans& program : request.programs()) {
    TENSORD_RETURN_IF_ERROR(CheckProgram(program, request.caller().pid(), now));
  }
  return absl::OkStatus();
}

}  // namespace tensord::server
