// SPDX-License-Identifier: Apache-2.0
#include "server/frames/frame_service.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "server/frames/check_frame.h"
#include "server/frames/fields.h"
#include "server/frames/frame_place.h"
#include "server/log/quoted.h"
#include "server/pool/stopping.h"
#include "server/statistics/metrics.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace {

// Of a reply. A job that has many specialisations of a code asks again for those that are left out,
// with what it knows.
constexpr size_t kMostBytes = 128 << 20;
constexpr size_t kMostFollowing = 256;
// More than a client keeps.
constexpr int kMostKnown = 1024;
constexpr size_t kMostFollowingBytes = 8 << 20;

constexpr int kMostUses = 4096;  // of a request
constexpr size_t kMostMisses = 1024;

constexpr size_t kMaxReasons = 256;
constexpr size_t kMaxReasonBytes = 200;
constexpr char kOtherReasons[] = "others";

v1::CodeIdentity CodeOf(const store::FrameRow& row) {
  v1::CodeIdentity code;
  code.set_digest(row.facts.code);
  code.set_module(row.facts.module);
  code.set_qualified_name(row.facts.qualified_name);
  return code;
}

// `search`: in small letters.
bool Matches(const store::FrameRow& row, const std::string& search) {
  const store::FrameFacts& facts = row.facts;
  const std::string name =
      absl::AsciiStrToLower(absl::StrCat(facts.module, " ", facts.qualified_name));
  return absl::StartsWith(ToHex(row.key), search) || absl::StrContains(name, search);
}

// False: what is stored is no frame.
bool Fill(const store::FrameRow& row, const store::Record& record, v1::StoredFrame* frame) {
  frame->set_key(row.key);
  frame->set_hits(row.hits);
  frame->set_created_unix(row.created_ms / 1000);
  frame->set_used_unix(row.used_ms / 1000);
  return frame->mutable_frame()->ParseFromString(record.payload);
}

}  // namespace

struct FrameService::Search {
  std::string code;
  std::string environment;
  std::string place;
  std::set<std::string> known;
  bool captures = false;
  absl::Time until;
  v1::Caller caller;
  v1::FindFramesReply* reply;
  Done done;
  OwnSteps* steps;  // or null
};

FrameService::FrameService(FrameOptions options, store::Store* store, Metrics* metrics,
                           fleet::Fleet* fleet, JobLists* jobs, JobProcesses* processes)
    : options_(options),
      store_(store),
      metrics_(metrics),
      shared_(fleet, store, options.most_bytes),
      jobs_(jobs),
      processes_(processes),
      captures_(options.lease, options.max_waiting),
      misses_(kMostMisses),
      putting_(1),
      due_([this] { AnswerDue(); }) {}

FrameService::~FrameService() {
  Stop();
  due_.join();
  absl::MutexLock lock(&tasks_mutex_);
  tasks_mutex_.Await(absl::Condition(+[](int* tasks) { return *tasks == 0; }, &tasks_));
}

FrameService::SearchPtr FrameService::Find(v1::FindFramesRequest request,
                                           v1::FindFramesReply* reply, Done done, Origin origin,
                                           OwnSteps* steps) {
  auto search = std::make_shared<Search>();
  search->steps = steps;
  absl::Status status = CheckDigest("code", request.code());
  status.Update(Within("environment", CheckEnvironment(request.environment())));
  status.Update(CheckEach("known", request.known(),
                          [](const std::string& key) { return CheckDigest("", key); }));
  if (!status.ok()) {
    done(status);
    return search;
  }
  search->code = request.code();
  search->environment = DigestOf(request.environment());
  search->place = PlaceOf(search->code, search->environment);
  const auto& known = request.known();
  search->known = {known.begin(), known.begin() + std::min(known.size(), kMostKnown)};
  search->captures = request.captures();
  search->until = absl::Now() + absl::Milliseconds(request.wait_milliseconds());
  search->caller = request.caller();
  search->reply = reply;
  search->done = std::move(done);

  const v1::Caller& caller = request.caller();
  if (LookUp(*search)) {
    Answer(search, 0, absl::OkStatus());
    return search;
  }
  if (!search->captures) {
    AddFollowing(*search);
    Answer(search, 0, absl::OkStatus());
    return search;
  }
  // Containers of one host may share its name, and not its processes' numbers.
  const ProcessLife process = origin == Origin::kThisHost
                                  ? ProcessLife::Of(caller.pid(), caller.host())
                                  : ProcessLife::NotHere(caller.pid(), caller.host());
  const auto asked = captures_.Ask(search->place, process, search->until, search);
  if (asked.waits) {
    ++metrics_->captures_waited;
    // Who captured may have put its frame since the look-up.
    Settle(search->place);
  } else if (asked.capture != 0 && LookUp(*search)) {
    captures_.End(asked.capture);
    Answer(search, 0, absl::OkStatus());
    Settle(search->place);
  } else if (asked.capture != 0 && shared_.Exist()) {
    AskFleet(search, asked.capture);
  } else {
    AddFollowing(*search);
    Answer(search, asked.capture, absl::OkStatus());
  }
  return search;
}

void FrameService::Cancel(const SearchPtr& search) {
  if (!captures_.Take(search->place, search)) return;
  Answer(search, 0, absl::CancelledError("the client has gone"));
}

bool FrameService::LookUp(Search& search) {
  return Give(search, store_->FramesOf(search.code, search.environment, search.known, kMostBytes));
}

bool FrameService::Give(Search& search, const std::vector<store::FoundFrame>& frames) {
  size_t bytes = 0;
  for (const store::FoundFrame& found : frames) {
    bytes += found.record->payload.size();
    if (bytes > kMostBytes && search.reply->frames_size() > 0) break;
    if (!Fill(found.row, *found.record, search.reply->add_frames())) {
      search.reply->mutable_frames()->RemoveLast();
    }
  }
  if (search.reply->frames_size() == 0) return false;
  AddFollowing(search);
  return true;
}

// Nothing for a job that knows frames of the code and has got no others: it has these.
void FrameService::AddFollowing(Search& search) {
  v1::FindFramesReply& reply = *search.reply;
  if (reply.frames_size() == 0 && !search.known.empty()) return;
  reply.clear_following();
  size_t bytes = 0;
  for (const std::string& code :
       store_->CodesBehind(search.code, search.environment, kMostFollowing)) {
    for (const store::FoundFrame& found :
         store_->FramesOf(code, search.environment, search.known, kMostFollowingBytes - bytes)) {
      bytes += found.record->payload.size();
      if (bytes > kMostFollowingBytes ||
          static_cast<size_t>(reply.following_size()) >= kMostFollowing) {
        return;
      }
      if (!Fill(found.row, *found.record, reply.add_following())) {
        reply.mutable_following()->RemoveLast();
      }
    }
  }
}

// Meanwhile it holds the capture, and others wait.
void FrameService::AskFleet(const SearchPtr& search, uint64_t capture) {
  BeginTask();
  {
    absl::MutexLock lock(&tasks_mutex_);
    asking_.insert(search);
  }
  const absl::Duration wait = std::max(absl::ZeroDuration(), search->until - absl::Now());
  fleet::Around in_a_step;
  if (search->steps != nullptr) in_a_step = search->steps->OnDisk(ProcessOf(search->caller));
  shared_.Find(search->place, wait, std::move(in_a_step),
               [this, search, capture](const absl::Status& found) {
                 AnswerOfFleet(search, capture, found.ok());
                 EndTask();
               });
}

void FrameService::AnswerOfFleet(const SearchPtr& search, uint64_t capture, bool found) {
  const std::string place = search->place;
  if (!TakeAsking(search)) {  // answered by a stop
    shared_.GiveUp(place);
  } else if (found && LookUp(*search)) {
    captures_.End(capture);
    Answer(search, 0, absl::OkStatus());
    Settle(place);
  } else {
    // It begins to capture only now. If it waited for so long that another process of this host
    // captures already, it does so by itself.
    const bool captures = captures_.Renew(capture);
    AddFollowing(*search);
    Answer(search, captures ? capture : 0, absl::OkStatus());
  }
}

bool FrameService::TakeAsking(const SearchPtr& search) {
  absl::MutexLock lock(&tasks_mutex_);
  return asking_.erase(search) > 0;
}

void FrameService::Answer(const SearchPtr& search, uint64_t capture, const absl::Status& status) {
  search->reply->set_capture(capture);
  metrics_->captures += capture != 0;
  if (status.ok()) {
    const bool found = search->reply->frames_size() > 0;
    ++(found ? metrics_->frames_found : metrics_->frames_not_found);
    if (processes_ != nullptr) processes_->AskedForFrames(search->caller, found, capture != 0);
  }
  spdlog::debug("event=frames code={} frames={} following={} capture={}",
                ToHex(search->code).substr(0, 12), search->reply->frames_size(),
                search->reply->following_size(), capture);
  // The reply may be gone as soon as this returns.
  search->done(status);
}

void FrameService::Settle(const std::string& place) {
  for (const SearchPtr& search : captures_.Waiting(place)) {
    // Only who takes it off the list may write its reply.
    const auto frames =
        store_->FramesOf(search->code, search->environment, search->known, kMostBytes);
    if (frames.empty() || !captures_.Take(place, search)) continue;
    Give(*search, frames);
    Answer(search, 0, absl::OkStatus());
  }
  if (const auto granted = captures_.Pass(place)) {
    Answer(granted->waiter, granted->capture, absl::OkStatus());
  }
}

void FrameService::AnswerDue() {
  while (const auto due = captures_.AwaitDue()) {
    metrics_->captures_lapsed += due->lapsed;
    for (const SearchPtr& search : due->late) Answer(search, 0, absl::OkStatus());
    for (const std::string& place : due->places) Settle(place);
    for (const std::string& place : due->left) shared_.GiveUp(place);
  }
}

void FrameService::BeginTask() {
  absl::MutexLock lock(&tasks_mutex_);
  ++tasks_;
}

void FrameService::EndTask() {
  absl::MutexLock lock(&tasks_mutex_);
  --tasks_;
}

void FrameService::EndCapture(const v1::EndCaptureRequest& request) {
  CountUnrecorded(request.reason());
  spdlog::info("event=frame_unrecorded reason=\"{}\"", Quoted(request.reason()));
  if (const auto place = captures_.End(request.capture())) {
    shared_.GiveUp(*place);
    Settle(*place);
  }
}

void FrameService::CountUnrecorded(const std::string& reason) {
  absl::MutexLock lock(&unrecorded_mutex_);
  std::string name = Shortened(reason.empty() ? "no reason given" : reason, kMaxReasonBytes);
  if (unrecorded_.size() >= kMaxReasons && unrecorded_.count(name) == 0) name = kOtherReasons;
  ++unrecorded_[name];
}

absl::Status FrameService::Use(const v1::UseFramesRequest& request) {
  if (request.keys_size() > kMostUses) {
    return BadField("keys", request.keys_size(), "; a request has at most ", kMostUses);
  }
  TENSORD_RETURN_IF_ERROR(CheckEach("keys", request.keys(),
                                    [](const std::string& key) { return CheckDigest("", key); }));
  if (request.misses_size() > kMostUses) {
    return BadField("misses", request.misses_size(), "; a request has at most ", kMostUses);
  }
  TENSORD_RETURN_IF_ERROR(CheckEach("misses", request.misses(), [](const v1::FrameMiss& miss) {
    return CheckDigest("key", miss.key());
  }));
  for (v1::FrameMiss miss : request.misses()) {
    *miss.mutable_caller() = request.caller();
    misses_.Add(miss, absl::ToUnixSeconds(absl::Now()));
  }
  std::map<std::string, uint64_t> uses;
  for (const std::string& key : request.keys()) ++uses[key];
  for (const auto& [key, count] : uses) {
    if (!store_->CountFrameUse(key, count)) continue;
    metrics_->frame_hits += count;
    if (processes_ != nullptr) processes_->Served(request.caller(), count);
    NoteUse(request.caller().job(), key);
  }
  return absl::OkStatus();
}

void FrameService::NoteUse(const std::string& job, const std::string& key) {
  if (jobs_ == nullptr || job.empty()) return;
  const auto record = store_->PeekFrame(key);
  const auto facts = record.ok() ? store::DecodeFrameFacts((*record)->facts) : record.status();
  if (facts.ok()) jobs_->Used(job, FramesName(PlaceOf(facts->code, facts->environment)));
}

void FrameService::ListMisses(const v1::ListMissesRequest& request, v1::ListMissesReply* reply) {
  for (v1::FrameMiss& miss : misses_.List(request.key_prefix(), request.limit(), request.job())) {
    if (const auto row = store_->FindFrame(miss.key()); row.ok()) {
      *miss.mutable_code() = CodeOf(*row);
    }
    *reply->add_misses() = std::move(miss);
  }
}

// Those that are kept in memory have no row in the index, so what is sought is sought here.
absl::Status FrameService::List(const v1::ListFramesRequest& request, v1::ListFramesReply* reply) {
  const bool all = request.search().empty() && request.skip() == 0;
  TENSORD_ASSIGN_OR_RETURN(const std::vector<store::FrameRow> rows,
                           store_->ListFrames(all ? request.limit() : 0));
  const std::string search = absl::AsciiStrToLower(request.search());
  uint64_t matching = 0;
  for (const store::FrameRow& row : rows) {
    if (!Matches(row, search) || ++matching <= request.skip()) continue;
    if (request.limit() != 0 && matching > request.skip() + request.limit()) continue;
    v1::FrameSummary& summary = *reply->add_frames();
    summary.set_key(row.key);
    *summary.mutable_code() = CodeOf(row);
    summary.set_guards(row.facts.guards);
    summary.set_graphs(row.facts.graphs);
    summary.set_inlined(row.facts.inlined);
    summary.set_bytes(row.bytes);
    summary.set_hits(row.hits);
    summary.set_created_unix(row.created_ms / 1000);
    summary.set_used_unix(row.used_ms / 1000);
  }
  if (all && request.limit() != 0) {
    TENSORD_ASSIGN_OR_RETURN(const store::Totals totals, store_->Count());
    matching = std::max(matching, totals.frames);
  }
  reply->set_matching(matching);
  v1::Stats stats;
  FillStats(&stats);
  reply->mutable_unrecorded()->Swap(stats.mutable_frames_unrecorded());
  return absl::OkStatus();
}

absl::Status FrameService::Get(const v1::GetFrameRequest& request, v1::StoredFrame* reply) {
  constexpr size_t kMinPrefix = 4;
  if (request.key_prefix().size() < kMinPrefix) {
    return absl::InvalidArgumentError("a key's prefix has at least 4 bytes (8 hex digits)");
  }
  TENSORD_ASSIGN_OR_RETURN(const store::FrameRow row, store_->FindFrame(request.key_prefix()));
  TENSORD_ASSIGN_OR_RETURN(const auto record, store_->PeekFrame(row.key));
  if (!Fill(row, *record, reply)) return absl::DataLossError("the stored frame cannot be read");
  return absl::OkStatus();
}

void FrameService::FillStats(v1::Stats* stats) {
  stats->set_frames_evicted(store_->counters().frames_evicted);
  absl::MutexLock lock(&unrecorded_mutex_);
  for (const auto& [reason, count] : unrecorded_) {
    v1::UnrecordedFrame* unrecorded = stats->add_frames_unrecorded();
    unrecorded->set_reason(reason);
    unrecorded->set_count(count);
  }
}

void FrameService::Stop() {
  for (const SearchPtr& search : captures_.Stop()) Answer(search, 0, Stopping());
  std::set<SearchPtr> asking;
  {
    absl::MutexLock lock(&tasks_mutex_);
    asking.swap(asking_);
  }
  for (const SearchPtr& search : asking) Answer(search, 0, Stopping());
}

}  // namespace tensord::server
