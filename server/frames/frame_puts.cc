// SPDX-License-Identifier: Apache-2.0
// What jobs recorded, one after the other on a thread of its own.
#include <absl/strings/str_cat.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "base/sha256.h"
#include "server/compile/request_memory.h"
#include "server/frames/check_frame.h"
#include "server/frames/fields.h"
#include "server/frames/frame_place.h"
#include "server/frames/frame_service.h"
#include "server/log/quoted.h"
#include "server/statistics/metrics.h"

namespace tensord::server {
namespace {

// Of a PutFrameRequest whose other fields may not parse; 0: none is found.
uint64_t CaptureOf(const std::string& bytes) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kTag = WireFormatLite::MakeTag(v1::PutFrameRequest::kCaptureFieldNumber,
                                                    WireFormatLite::WIRETYPE_VARINT);
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  uint64_t capture = 0;
  while (const uint32_t tag = input.ReadTag()) {
    const bool read =
        tag == kTag ? input.ReadVarint64(&capture) : WireFormatLite::SkipField(&input, tag);
    if (!read) break;
  }
  return capture;
}

std::string Short(const std::string& key) { return ToHex(key).substr(0, 12); }

}  // namespace

void FrameService::Put(std::string request, v1::PutFrameReply* reply, Done done) {
  BeginTask();
  if (!TakePutRoom(request.size())) {
    const uint64_t capture = CaptureOf(request);
    const absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat(options_.most_waiting_bytes,
                     " bytes of frames wait for the store already; what this one "
                     "holds is captured by the next process"));
    EndPut(full, "", capture, reply, done);
    return EndTask();
  }
  putting_.Run([this, request = std::move(request), reply, done = std::move(done)]() mutable {
    std::string place;
    uint64_t capture = 0;
    const absl::Status status = PutNow(request, reply, &place, &capture);
    GivePutRoom(std::exchange(request, "").size());
    EndPut(status, place, capture, reply, done);
    EndTask();
  });
}

void FrameService::EndPut(const absl::Status& status, const std::string& place, uint64_t capture,
                          const v1::PutFrameReply* reply, const Done& done) {
  ++(status.ok() ? metrics_->frames_put : metrics_->frames_refused);
  if (!status.ok()) spdlog::warn("event=frame_refused error=\"{}\"", Quoted(status.ToString()));
  const auto ended = captures_.End(capture);
  if (!place.empty()) shared_.Put(place, reply->key());
  done(status);
  if (ended.has_value() && *ended != place) {
    shared_.GiveUp(*ended);
    Settle(*ended);
  }
  if (!place.empty()) Settle(place);
}

bool FrameService::TakePutRoom(size_t bytes) {
  absl::MutexLock lock(&tasks_mutex_);
  if (put_bytes_ > 0 && put_bytes_ + bytes > options_.most_waiting_bytes) return false;
  put_bytes_ += bytes;
  return true;
}

void FrameService::GivePutRoom(size_t bytes) {
  absl::MutexLock lock(&tasks_mutex_);
  put_bytes_ -= bytes;
}

// A parsed frame takes many times its bytes, so it is gone after this, and there is one at a time.
// `place`: that of the frame, when it is sound.
absl::Status FrameService::PutNow(const std::string& bytes, v1::PutFrameReply* reply,
                                  std::string* place, uint64_t* capture) {
  absl::Status status;
  {
    google::protobuf::Arena arena;
    auto& request = *google::protobuf::Arena::CreateMessage<v1::PutFrameRequest>(&arena);
    if (!request.ParseFromString(bytes)) {
      *capture = CaptureOf(bytes);
      return absl::InvalidArgumentError("the request is not a PutFrameRequest");
    }
    *capture = request.capture();
    status = Keep(request, reply);
    if (status.ok()) {
      *place = PlaceOf(request.frame().code().digest(), DigestOf(request.frame().environment()));
    }
  }
  if (bytes.size() > RequestMemory::kSmall) malloc_trim(0);
  return status;
}

absl::Status FrameService::Keep(const v1::PutFrameRequest& request, v1::PutFrameReply* reply) {
  if (request.frame().ByteSizeLong() > options_.most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the frame has ", request.frame().ByteSizeLong(), " bytes; at most ",
                     options_.most_bytes, " are kept (frame_limit)"));
  }
  if (!request.behind().empty()) TENSORD_RETURN_IF_ERROR(CheckDigest("behind", request.behind()));
  TENSORD_RETURN_IF_ERROR(CheckFrame(request.frame()));
  const std::string frame = request.frame().SerializeAsString();
  const std::string key = Sha256(frame);
  const store::FrameFacts facts = FactsOf(request.frame(), request.behind());
  TENSORD_RETURN_IF_ERROR(store_->PutFrame(key, frame, facts));
  reply->set_key(key);
  NoteUse(request.caller().job(), key);
  spdlog::info(
      "event=frame key={} code={} name=\"{}\" guards={} graphs={} bytes={} caller={} job=\"{}\" "
      "rank={}",
      Short(key), Short(facts.code), Quoted(facts.qualified_name), facts.guards, facts.graphs,
      frame.size(), request.caller().pid(), Quoted(request.caller().job()),
      request.caller().rank());
  return absl::OkStatus();
}

}  // namespace tensord::server
