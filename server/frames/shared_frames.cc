// SPDX-License-Identifier: Apache-2.0
#include "server/frames/shared_frames.h"

#include <utility>

#include "base/sha256.h"
#include "server/store/frame_facts.h"

namespace tensord::server {
namespace {

fleet::Name NameOf(const std::string& place) { return {"frames", Sha256(place)}; }

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

}  // namespace

void SharedFrames::Find(const std::string& place, Keep keep, fleet::Fleet::Done done) {
  fleet::Fleet::Query query;
  query.name = NameOf(place);
  // A frame's key is the digest of its bytes.
  query.has = [store = store_](const std::string& key) { return store->PeekFrame(key).ok(); };
  query.take = [keep = std::move(keep)](const fleet::Parcel& parcel) {
    absl::Status refused;
    size_t kept = 0;
    for (const fleet::Blob& blob : parcel.blobs) {
      absl::Status status;
      if (blob.bytes.has_value()) {
        const auto behind = BehindOf(blob.note);
        status = behind.ok() ? keep(*blob.bytes, *behind) : behind.status();
      }
      kept += status.ok();
      refused.Update(status);
    }
    if (kept > 0) return absl::OkStatus();
    return refused.ok() ? absl::NotFoundError("its frames have gone")
                        : absl::DataLossError(refused.message());
  };
  fleet_->Find(std::move(query), std::move(done));
}

void SharedFrames::Put(const std::string& place, const std::string& key) {
  if (fleet_ == nullptr) return;
  fleet_->Add(NameOf(place), [store = store_, key]() -> absl::StatusOr<fleet::Blob> {
    TENSORD_ASSIGN_OR_RETURN(const auto record, store->PeekFrame(key));
    TENSORD_ASSIGN_OR_RETURN(const auto facts, store::DecodeFrameFacts(record->facts));
    return fleet::Blob{key, NoteOf(facts.behind), record->payload};
  });
}

}  // namespace tensord::server
