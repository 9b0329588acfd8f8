// SPDX-License-Identifier: Apache-2.0
#include "server/archive/import.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/sha256.h"
#include "base/version.h"
#include "server/archive/archive_tier.h"
#include "server/archive/contents.h"
#include "server/fleet/exchange.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/programs.h"
#include "server/frames/shared_frames.h"

namespace tensord::archive {
namespace {

constexpr int kAttempts = 3;

// What is done with the objects of a kind.
struct Kind {
  const char* name;
  absl::Status (*check)(const fleet::Name& name, const fleet::Parcel& parcel);
  // True: it is stored already.
  bool (*is_stored)(store::Store& store, const fleet::Name& name,
                    const v1::FleetManifest& manifest);
  // A blob that need not be read.
  bool (*has)(store::Store& store, const std::string& sha256);
  absl::Status (*take)(store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel);
  uint64_t (*count)(const v1::FleetManifest& manifest);  // of programs or frames
  uint64_t Imported::*counted;
};

absl::Status CheckFrames(const fleet::Name& name, const fleet::Parcel& parcel) {
  for (const fleet::Blob& blob : parcel.blobs) {
    TENSORD_RETURN_IF_ERROR(server::CheckSharedFrame(name, blob, server::kMostFrameBytes));
  }
  return absl::OkStatus();
}

bool HasProgram(store::Store& store, const fleet::Name& name, const v1::FleetManifest&) {
  const auto record = store.Peek(name.key);
  return record.ok() && std::all_of((*record)->blobs.begin(), (*record)->blobs.end(),
                                    [&](const auto& blob) { return store.ReadBlob(blob).ok(); });
}

bool HasFrame(store::Store& store, const std::string& key) { return store.PeekFrame(key).ok(); }

const Kind* FindKind(const std::string& name) {
  static const Kind kKinds[] = {
      {"program", [](const fleet::Name&, const fleet::Parcel& parcel) { return CheckProgram(parcel); },
       HasProgram,
       [](store::Store& store, const std::string& sha256) { return store.ReadBlob(sha256).ok(); },
       [](store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel) {
         return fleet::TakeProgram(store, name.key, parcel);
       },
       [](const v1::FleetManifest&) { return uint64_t{1}; }, &Imported::programs},
      {"frames", CheckFrames,
       [](store::Store& store, const fleet::Name&, const v1::FleetManifest& manifest) {
         return std::all_of(manifest.blobs().begin(), manifest.blobs().end(),
                            [&](const auto& blob) { return HasFrame(store, blob.sha256()); });
       },
       HasFrame,
       [](store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel) {
         return server::TakeFrames(store, name, parcel, server::kMostFrameBytes);
       },
       [](const v1::FleetManifest& manifest) { return uint64_t(manifest.blobs_size()); },
       &Imported::frames},
  };
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

class Importer {
 public:
  // All outlive it.
  Importer(const std::string& path, const TarReader* reader, fleet::Keys* keys)
      : reader_(*reader), keys_(*keys), tier_(path, reader), exchange_(&tier_, keys) {}

  absl::Status ReadList(const std::string& compiler_build) {
    TENSORD_ASSIGN_OR_RETURN(contents_, ReadContents(reader_, keys_));
    const char* const differs =
        contents_.frame_format() != kFrameFormat        ? "format of frames"
        : contents_.compiler_build() != compiler_build ? "build of the compiler"
                                                        : nullptr;
    if (differs == nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("it was exported by tensord ", contents_.version(), " with another ", differs,
                     ", so that nothing of it would ever be found here: export it with the same "
                     "build as this one"));
  }

  absl::StatusOr<Imported> Check() {
    Imported found;
    found.toolchains.assign(contents_.toolchains().begin(), contents_.toolchains().end());
    std::set<std::string> named{reader_.last()};
    for (const v1::FleetListing& listing : contents_.manifests()) {
      if (const absl::Status status = CheckOne(listing, named, found); !status.ok()) {
        return Refused(listing, status);
      }
    }
    for (const auto& [name, entry] : reader_.entries()) {
      if (named.count(name) == 0) {
        return absl::DataLossError(absl::StrCat("nothing that it lists needs its ", name));
      }
    }
    return found;
  }

  absl::StatusOr<Imported> TakeAll(store::Store& store) {
    Imported taken;
    taken.toolchains.assign(contents_.toolchains().begin(), contents_.toolchains().end());
    for (const v1::FleetListing& listing : contents_.manifests()) {
      absl::Status status;
      // Aborted: an eviction by a daemon took a kernel before its program was there.
      for (int attempt = 0; attempt < kAttempts; ++attempt) {
        status = TakeOne(listing, store, taken);
        if (!absl::IsAborted(status)) break;
      }
      // It was sound a moment ago.
      if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
        status = absl::AbortedError(absl::StrCat("the file has changed: ", status.message()));
      }
      // What the disk does not take is kept in memory, where no daemon finds it.
      if (const std::string problem = store.problem(); status.ok() && !problem.empty()) {
        status = absl::ResourceExhaustedError(problem);
      }
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat(listing.name(), ": ", status.message(), " (", taken.programs,
                                         " programs and ", taken.frames,
                                         " frames are stored; import it again for the rest)"));
      }
    }
    return taken;
  }

 private:
  static absl::Status Refused(const v1::FleetListing& listing, const absl::Status& why) {
    // That a blob is missing is damage here.
    const absl::StatusCode code = absl::IsNotFound(why) ? absl::StatusCode::kDataLoss : why.code();
    return absl::Status(code, absl::StrCat(listing.name(), ": ", why.message()));
  }

  absl::Status CheckOne(const v1::FleetListing& listing, std::set<std::string>& named,
                        Imported& found) {
    TENSORD_ASSIGN_OR_RETURN(const fleet::Name name, ParseName(listing.name()));
    const Kind* const kind = FindKind(name.kind);
    if (kind == nullptr) return absl::DataLossError("nobody knows what this is");
    TENSORD_ASSIGN_OR_RETURN(const v1::FleetManifest manifest, GetListed(listing, name));
    TENSORD_ASSIGN_OR_RETURN(
        const fleet::Parcel parcel,
        exchange_.GetParcel(manifest, fleet::Exchange::Has(), absl::InfiniteFuture()));
    if (!parcel.complete) {
      return absl::DataLossError(parcel.refused > 0 ? "a blob of it is damaged"
                                                    : "a blob of it is missing");
    }
    TENSORD_RETURN_IF_ERROR(kind->check(name, parcel));
    found.*kind->counted += kind->count(manifest);
    const auto name_blob = [&](const v1::FleetBlob& blob) {
      named.insert(fleet::FolderPath(fleet::Name{"blob", blob.stored_sha256()}.Path()));
    };
    named.insert(fleet::FolderPath(listing.name()));
    if (manifest.has_content()) name_blob(manifest.content());
    for (const v1::FleetBlob& blob : manifest.blobs()) name_blob(blob);
    return absl::OkStatus();
  }

  // The manifest that the list means: no other that was signed for the name, before say.
  absl::StatusOr<v1::FleetManifest> GetListed(const v1::FleetListing& listing,
                                              const fleet::Name& name) {
    TENSORD_ASSIGN_OR_RETURN(const auto sealed,
                             tier_.Get({{listing.name()}}, absl::InfiniteFuture()));
    if (!sealed[0].has_value()) return absl::DataLossError("it is listed and missing");
    if (Sha256(*sealed[0]) != listing.sha256()) {
      return absl::DataLossError("it is not the one that was listed");
    }
    return exchange_.GetManifest(name, absl::InfiniteFuture());
  }

  absl::Status TakeOne(const v1::FleetListing& listing, store::Store& store, Imported& taken) {
    TENSORD_ASSIGN_OR_RETURN(const fleet::Name name, ParseName(listing.name()));
    const Kind& kind = *FindKind(name.kind);
    TENSORD_ASSIGN_OR_RETURN(const v1::FleetManifest manifest, GetListed(listing, name));
    if (kind.is_stored(store, name, manifest)) {
      taken.stored_before += kind.count(manifest);
      return absl::OkStatus();
    }
    const auto has = [&](const std::string& sha256) { return kind.has(store, sha256); };
    TENSORD_ASSIGN_OR_RETURN(const fleet::Parcel parcel,
                             exchange_.GetParcel(manifest, has, absl::InfiniteFuture()));
    TENSORD_RETURN_IF_ERROR(kind.take(store, name, parcel));
    taken.*kind.counted += kind.count(manifest);
    return absl::OkStatus();
  }

  const TarReader& reader_;
  fleet::Keys& keys_;
  ArchiveTier tier_;
  fleet::Exchange exchange_;
  v1::FleetContents contents_;
};

// `store`: null for none.
absl::StatusOr<Imported> Read(store::Store* store, fleet::Keys& keys,
                              const std::string& compiler_build, const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(const TarReader reader, TarReader::Open(path));
  Importer importer(path, &reader, &keys);
  TENSORD_RETURN_IF_ERROR(importer.ReadList(compiler_build));
  auto found = importer.Check();
  if (!found.ok() || store == nullptr) return found;
  return importer.TakeAll(*store);
}

// What to do about it.
absl::Status WithAdvice(const std::string& path, const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat(path, ": ", status.message(),
                   absl::IsDataLoss(status)
                       ? ". Nothing of it was taken: copy it again, or have it exported again by a "
                         "host whose key is in fleet_trust"
                       : ""));
}

}  // namespace

absl::StatusOr<Imported> CheckFile(fleet::Keys& keys, const std::string& compiler_build,
                                   const std::string& path) {
  auto found = Read(nullptr, keys, compiler_build, path);
  if (!found.ok()) return WithAdvice(path, found.status());
  return found;
}

absl::StatusOr<Imported> Import(store::Store& store, fleet::Keys& keys,
                                const std::string& compiler_build, const std::string& path) {
  auto taken = Read(&store, keys, compiler_build, path);
  if (!taken.ok()) return WithAdvice(path, taken.status());
  return taken;
}

}  // namespace tensord::archive
