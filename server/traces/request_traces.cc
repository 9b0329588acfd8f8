// SPDX-License-Identifier: Apache-2.0
#include "server/traces/request_traces.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "server/traces/callers.h"
#include "server/traces/check_spans.h"
#include "server/traces/span_log.h"

namespace tensord::server {
namespace {

// An error's beginning says enough.
constexpr size_t kLongestError = 1000;

size_t BytesOfSpans(const std::vector<v1::Span>& spans) {
  size_t bytes = 0;
  for (const v1::Span& span : spans) bytes += span.SpaceUsedLong();
  return bytes;
}

bool Compiled(const std::shared_ptr<const SeenRequest>& request) {
  return request->compile != nullptr && std::strcmp(request->outcome, "compiled") == 0;
}

void AddMark(const SeenRequest& request, const Mark& mark, v1::RequestTrace* trace) {
  v1::Span& span = *trace->add_spans();
  span.set_name(mark.name);
  span.set_detail(mark.detail);
  span.set_start_nanoseconds(mark.start);
  span.set_nanoseconds(mark.end - mark.start);
  span.set_process(v1::Span::DAEMON);
  span.set_pid(static_cast<uint32_t>(getpid()));
  span.set_track(absl::StrCat("request ", request.id));
}

void Fill(const SeenRequest& request, v1::RequestTrace* trace) {
  trace->set_request_id(request.id);
  trace->set_program_key(request.key);
  trace->set_label(request.label);
  trace->set_outcome(request.outcome);
  trace->set_error(request.error);
  *trace->mutable_caller() = request.caller;
  trace->set_start_unix_nanoseconds(request.start_unix_nanoseconds);
  AddMark(request, {"request", request.start, request.end, request.outcome}, trace);
  for (const Mark& mark : request.marks) AddMark(request, mark, trace);
  if (request.compile != nullptr) {
    for (const v1::Span& span : request.compile->spans) *trace->add_spans() = span;
  }
  for (const v1::Span& span : request.job) *trace->add_spans() = span;
}

}  // namespace

CompileSpans::CompileSpans(std::vector<v1::Span> taken)
    : spans(std::move(taken)), bytes(BytesOfSpans(spans)) {}

// Of a compile that several waited for each counts all.
size_t RequestTraces::BytesOf(const SeenRequest& request) {
  return sizeof request + 2 * request.key.size() + request.label.size() + request.error.size() +
         request.caller.job().size() + request.caller.host().size() + BytesOfSpans(request.job) +
         (request.compile == nullptr ? 0 : request.compile->bytes);
}

void RequestTraces::Add(SeenRequest request) {
  request.caller = KeptCaller(std::move(request.caller));
  if (request.label.size() > kLongestCaller) request.label.clear();
  request.error = Cut(request.error, kLongestError);
  absl::MutexLock lock(&mutex_);
  const auto [place, is_new] = by_key_.try_emplace(request.key);
  if (is_new) {
    programs_.push_front({request.key, {}});
    place->second = programs_.begin();
  } else {
    programs_.splice(programs_.begin(), programs_, place->second);
  }
  bytes_ += BytesOf(request);
  Program& program = programs_.front();
  program.requests.push_back(std::make_shared<const SeenRequest>(std::move(request)));
  TrimProgram(program);
  Trim();
}

void RequestTraces::TrimProgram(Program& program) {
  auto& requests = program.requests;
  if (requests.size() <= per_program_) return;
  const auto last = std::find_if(requests.rbegin(), requests.rend(), Compiled);
  const bool keeps_first =
      per_program_ > 1 && last != requests.rend() && std::next(last) == requests.rend();
  const auto oldest = requests.begin() + (keeps_first ? 1 : 0);
  bytes_ -= BytesOf(**oldest);
  requests.erase(oldest);
}

void RequestTraces::Trim() {
  while (bytes_ > most_bytes_ && !programs_.empty()) {
    Program& oldest = programs_.back();
    bytes_ -= BytesOf(*oldest.requests.front());
    oldest.requests.pop_front();
    if (!oldest.requests.empty()) continue;
    by_key_.erase(oldest.key);
    programs_.pop_back();
  }
}

std::shared_ptr<const SeenRequest>* RequestTraces::Find(const v1::JobSpans& said) {
  const auto program = by_key_.find(said.program_key());
  if (program == by_key_.end()) return nullptr;
  for (auto& request : program->second->requests) {
    if (request->id == said.request_id()) return &request;
  }
  return nullptr;
}

absl::StatusOr<uint32_t> RequestTraces::Put(const v1::PutSpansRequest& request) {
  TENSORD_RETURN_IF_ERROR(CheckPut(request, MonotonicNanoseconds()));
  const v1::Caller caller = KeptCaller(request.caller());
  absl::MutexLock lock(&mutex_);
  for (const v1::JobSpans& said : request.programs()) {
    const auto* found = Find(said);
    if (found != nullptr && !IsSameProcess((*found)->caller, caller)) {
      return absl::InvalidArgumentError(
          absl::StrCat("request ", said.request_id(), " is another process's"));
    }
  }
  uint32_t kept = 0;
  for (const v1::JobSpans& said : request.programs()) {
    auto* const found = Find(said);
    if (found == nullptr || !(*found)->job.empty()) continue;
    // A copy, for somebody may be reading it.
    SeenRequest told = **found;
    told.job.assign(said.spans().begin(), said.spans().end());
    bytes_ += BytesOf(told) - BytesOf(**found);
    *found = std::make_shared<const SeenRequest>(std::move(told));
    ++kept;
  }
  Trim();
  return kept;
}

absl::StatusOr<std::vector<std::shared_ptr<const SeenRequest>>> RequestTraces::Wanted(
    const v1::GetTracesRequest& request) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<const SeenRequest>> found;
  const Program* only = nullptr;
  for (const Program& program : programs_) {
    if (!absl::StartsWith(program.key, request.key_prefix())) continue;
    if (!request.key_prefix().empty() && only != nullptr) {
      return absl::FailedPreconditionError("several programs begin with these digits; give more");
    }
    only = &program;
    for (const auto& one : program.requests) {
      if (request.job().empty() || one->caller.job() == request.job()) found.push_back(one);
    }
  }
  return found;
}

absl::Status RequestTraces::Get(const v1::GetTracesRequest& request, v1::Traces* reply) const {
  // Every request that ends waits for the lock, and what is filled in may be megabytes.
  TENSORD_ASSIGN_OR_RETURN(auto found, Wanted(request));
  std::sort(found.begin(), found.end(),
            [](const auto& one, const auto& other) { return one->id < other->id; });
  const size_t skipped =
      request.limit() > 0 && found.size() > request.limit() ? found.size() - request.limit() : 0;
  for (size_t i = skipped; i < found.size(); ++i) Fill(*found[i], reply->add_requests());
  return absl::OkStatus();
}

size_t RequestTraces::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace tensord::server
