// SPDX-License-Identifier: Apache-2.0
#include "server/archive/kinds.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/sha256.h"
#include "server/fleet/programs.h"
#include "server/frames/shared_frames.h"
#include "server/log/quoted.h"

namespace tensord::archive {
namespace {

constexpr int kAttempts = 3;

struct Kind {
  const char* name;
  uint64_t Taken::*counter;
  uint64_t (*count)(const v1::FleetManifest& manifest);
  absl::Status (*check)(const fleet::Name& name, const fleet::Parcel& parcel);
  // All that the manifest has.
  bool (*is_stored)(store::Store& store, const fleet::Name& name,
                    const v1::FleetManifest& manifest);
  // A blob that need not be fetched.
  bool (*has)(store::Store& store, const std::string& sha256);
  absl::Status (*take)(store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel);
};

uint64_t CountProgram(const v1::FleetManifest& /*manifest*/) { return 1; }

absl::Status CheckNamedProgram(const fleet::Name& /*name*/, const fleet::Parcel& parcel) {
  return fleet::CheckProgram(parcel);
}

bool HasBlob(store::Store& store, const std::string& sha256) { return store.ReadBlob(sha256).ok(); }

bool IsProgramStored(store::Store& store, const fleet::Name& name,
                     const v1::FleetManifest& /*manifest*/) {
  const auto record = store.Peek(name.key);
  return record.ok() && std::all_of((*record)->blobs.begin(), (*record)->blobs.end(),
                                    [&](const auto& blob) { return HasBlob(store, blob); });
}

absl::Status TakeNamedProgram(store::Store& store, const fleet::Name& name,
                              const fleet::Parcel& parcel) {
  return fleet::TakeProgram(store, name.key, parcel);
}

uint64_t CountFrames(const v1::FleetManifest& manifest) {
  return static_cast<uint64_t>(manifest.blobs_size());
}

absl::Status CheckFrames(const fleet::Name& name, const fleet::Parcel& parcel) {
  for (const fleet::Blob& blob : parcel.blobs) {
    TENSORD_RETURN_IF_ERROR(server::CheckSharedFrame(name, blob, server::kMostFrameBytes));
  }
  return absl::OkStatus();
}

bool HasFrame(store::Store& store, const std::string& key) { return store.PeekFrame(key).ok(); }

bool AreFramesStored(store::Store& store, const fleet::Name& /*name*/,
                     const v1::FleetManifest& manifest) {
  return std::all_of(manifest.blobs().begin(), manifest.blobs().end(),
                     [&](const auto& blob) { return HasFrame(store, blob.sha256()); });
}

absl::Status TakeNamedFrames(store::Store& store, const fleet::Name& name,
                             const fleet::Parcel& parcel) {
  return server::TakeFrames(store, name, parcel, server::kMostFrameBytes);
}

constexpr Kind kKinds[] = {
    {"program", &Taken::programs, CountProgram, CheckNamedProgram, IsProgramStored, HasBlob,
     TakeNamedProgram},
    {"frames", &Taken::frames, CountFrames, CheckFrames, AreFramesStored, HasFrame,
     TakeNamedFrames},
};

absl::StatusOr<const Kind*> FindKind(const fleet::Name& name) {
  for (const Kind& kind : kKinds) {
    if (name.kind == kind.name) return &kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("nobody knows what '", Quoted(name.kind), "' is"));
}

}  // namespace

std::string Describe(const Toolchain& toolchain) {
  return toolchain.id.substr(0, toolchain.id.find(" | "));
}

absl::Status Count(const fleet::Name& name, const v1::FleetManifest& manifest, Taken& counts) {
  TENSORD_ASSIGN_OR_RETURN(const Kind* const kind, FindKind(name));
  counts.*kind->counter += kind->count(manifest);
  return absl::OkStatus();
}

absl::Status Check(const fleet::Name& name, const fleet::Parcel& parcel) {
  TENSORD_ASSIGN_OR_RETURN(const Kind* const kind, FindKind(name));
  return kind->check(name, parcel);
}

absl::Status Take(store::Store& store, fleet::Exchange& exchange, const fleet::Name& name,
                  const v1::FleetManifest& manifest, absl::Time deadline, Taken& taken) {
  TENSORD_ASSIGN_OR_RETURN(const Kind* const kind, FindKind(name));
  if (kind->is_stored(store, name, manifest)) {
    taken.stored_before += kind->count(manifest);
    return absl::OkStatus();
  }
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto has = [&](const std::string& sha256) { return kind->has(store, sha256); };
    TENSORD_ASSIGN_OR_RETURN(const fleet::Parcel parcel,
                             exchange.GetParcel(manifest, has, deadline));
    status = kind->take(store, name, parcel);
    if (absl::IsNotFound(status) && parcel.refused > 0) {
      return absl::DataLossError("a blob of it is damaged");
    }
    // An eviction by a daemon took a kernel before its program was there.
    if (!absl::IsAborted(status)) break;
  }
  TENSORD_RETURN_IF_ERROR(status);
  // What the disk does not take is kept in memory, where no daemon finds it.
  if (const std::string problem = store.problem(); !problem.empty()) {
    return absl::ResourceExhaustedError(problem);
  }
  taken.*kind->counter += kind->count(manifest);
  return absl::OkStatus();
}

absl::StatusOr<fleet::Name> ParseName(const std::string& path) {
  const size_t slash = path.find('/');
  const std::string key = slash == std::string::npos ? "" : FromHex(path.substr(slash + 1));
  fleet::Name name{path.substr(0, slash), key};
  if (key.size() != kSha256Bytes || name.Path() != path) {
    return absl::DataLossError(absl::StrCat("'", Quoted(path), "' is no name of an object"));
  }
  return name;
}

}  // namespace tensord::archive
