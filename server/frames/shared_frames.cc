// SPDX-License-Identifier: Apache-2.0
#include "server/frames/shared_frames.h"

#include <google/protobuf/arena.h>

#include <utility>
#include <vector>

#include "base/sha256.h"
#include "server/frames/check_frame.h"
#include "server/frames/frame_place.h"
#include "server/store/frame_facts.h"

namespace tensord::server {
namespace {

// Digests one after the other.
std::string NoteOf(const std::vector<std::string>& behind) {
  std::string note;
  for (const std::string& code : behind) note += code;
  return note;
}

absl::StatusOr<std::vector<std::string>> BehindOf(const std::string& note) {
  if (note.size() % kSha256Bytes != 0 || note.size() > store::kMaxBehind * kSha256Bytes) {
    return absl::DataLossError("a frame's note is no list of codes");
  }
  std::vector<std::string> behind;
  for (size_t at = 0; at < note.size(); at += kSha256Bytes) {
    behind.push_back(note.substr(at, kSha256Bytes));
  }
  return behind;
}

absl::StatusOr<store::FrameFacts> ReadShared(const fleet::Name& name, const fleet::Blob& blob,
                                             uint64_t most_bytes) {
  if (!blob.bytes.has_value()) return absl::NotFoundError("a frame has gone");
  google::protobuf::Arena arena;
  auto& frame = *google::protobuf::Arena::CreateMessage<v1::Frame>(&arena);
  if (blob.bytes->size() > most_bytes || !frame.ParseFromString(*blob.bytes)) {
    return absl::DataLossError("it is no frame, or one that is too large");
  }
  const absl::Status sound = CheckFrame(frame);
  if (!sound.ok()) return absl::DataLossError(sound.message());
  store::FrameFacts facts = FactsOf(frame, "");
  if (FramesName(PlaceOf(facts.code, facts.environment)).key != name.key) {
    return absl::DataLossError("it is a frame of another code or environment");
  }
  TENSORD_ASSIGN_OR_RETURN(facts.behind, BehindOf(blob.note));
  return facts;
}

}  // namespace

fleet::Name FramesName(const std::string& place) { return {"frames", Sha256(place)}; }
fleet::Name CaptureName(const std::string& place) { return {"capture", Sha256(place)}; }

absl::StatusOr<fleet::Blob> PackFrame(store::Store& store, const std::string& key) {
  TENSORD_ASSIGN_OR_RETURN(const auto record, store.PeekFrame(key));
  TENSORD_ASSIGN_OR_RETURN(const auto facts, store::DecodeFrameFacts(record->facts));
  return fleet::Blob{key, NoteOf(facts.behind), record->payload};
}

absl::Status CheckSharedFrame(const fleet::Name& name, const fleet::Blob& blob,
                              uint64_t most_bytes) {
  return ReadShared(name, blob, most_bytes).status();
}

absl::Status TakeFrame(store::Store& store, const fleet::Name& name, const fleet::Blob& blob,
                       uint64_t most_bytes) {
  TENSORD_ASSIGN_OR_RETURN(store::FrameFacts facts, ReadShared(name, blob, most_bytes));
  return store.PutFrame(Sha256(*blob.bytes), *blob.bytes, std::move(facts));
}

absl::Status TakeFrames(store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel,
                        uint64_t most_bytes) {
  absl::Status refused;
  size_t kept = 0;
  for (const fleet::Blob& blob : parcel.blobs) {
    absl::Status status;
    if (blob.bytes.has_value()) status = TakeFrame(store, name, blob, most_bytes);
    kept += status.ok();
    refused.Update(status);
  }
  if (kept > 0) return absl::OkStatus();
  return refused.ok() ? absl::NotFoundError("its frames have gone")
                      : absl::DataLossError(refused.message());
}

void SharedFrames::Find(const std::string& place, absl::Duration wait, fleet::Around around,
                        fleet::Fleet::Done done) {
  fleet::Fleet::Query query;
  query.name = FramesName(place);
  // A frame's key is the digest of its bytes.
  query.has = [store = store_](const std::string& key) { return store->PeekFrame(key).ok(); };
  query.take = [store = store_, name = query.name,
                most_bytes = most_bytes_](const fleet::Parcel& parcel) {
    return TakeFrames(*store, name, parcel, most_bytes);
  };
  query.around = std::move(around);
  query.lease = CaptureName(place);
  query.wait = wait;
  fleet_->Find(std::move(query), std::move(done));
}

void SharedFrames::Put(const std::string& place, const std::string& key) {
  if (fleet_ == nullptr) return;
  fleet_->Add(
      FramesName(place), [store = store_, key] { return PackFrame(*store, key); },
      CaptureName(place));
}

void SharedFrames::GiveUp(const std::string& place) {
  if (fleet_ != nullptr) fleet_->GiveUp(CaptureName(place));
}

}  // namespace tensord::server
