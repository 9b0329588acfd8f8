// SPDX-License-Identifier: Apache-2.0
#include "server/archive/import.h"

#include <absl/strings/str_cat.h>

#include <set>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "base/version.h"
#include "server/archive/archive_tier.h"
#include "server/archive/contents.h"
#include "server/fleet/exchange.h"
#include "server/fleet/folder_tier.h"
#include "server/fleet/quoted.h"

namespace tensord::archive {
namespace {

class Importer {
 public:
  // All outlive it.
  Importer(const std::string& path, const TarReader* reader, fleet::Keys* keys)
      : reader_(*reader), keys_(*keys), tier_(path, reader), exchange_(&tier_, keys) {}

  absl::Status ReadList(const Host& host) {
    TENSORD_ASSIGN_OR_RETURN(contents_, ReadContents(reader_, keys_));
    const char* const differs = contents_.frame_format() != kFrameFormat ? "format of frames"
                                : contents_.compiler_build() != host.compiler_build
                                    ? "build of the compiler"
                                    : nullptr;
    if (differs != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("it was exported by tensord ", contents_.version(), " with another ",
                       differs, ", so that nothing of it would ever be found here: export it with ",
                       "the same build as this one"));
    }
    for (const v1::FleetToolchain& toolchain : contents_.toolchains()) {
      toolchains_.push_back({toolchain.target(), toolchain.id()});
    }
    return host.toolchain ? CompareToolchains(host) : absl::OkStatus();
  }

  absl::StatusOr<Imported> Check() {
    Imported found;
    found.toolchains = toolchains_;
    std::set<std::string> named{reader_.last()};
    for (const v1::FleetListing& listing : contents_.manifests()) {
      if (const absl::Status status = CheckOne(listing, named, found); !status.ok()) {
        return Refused(listing, status);
      }
    }
    for (const auto& [name, entry] : reader_.entries()) {
      if (named.count(name) == 0) {
        return absl::DataLossError(
            absl::StrCat("nothing that it lists needs its ", fleet::Quoted(name)));
      }
    }
    return found;
  }

  absl::StatusOr<Imported> TakeAll(store::Store& store) {
    Imported taken;
    taken.toolchains = toolchains_;
    for (const v1::FleetListing& listing : contents_.manifests()) {
      absl::Status status = TakeOne(listing, store, taken);
      // It was sound a moment ago.
      if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
        status = absl::AbortedError(absl::StrCat("the file has changed: ", status.message()));
      }
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat(listing.name(), ": ", status.message(), " (",
                                         taken.programs, " programs and ", taken.frames,
                                         " frames are stored; import it again for the rest)"));
      }
    }
    return taken;
  }

 private:
  absl::Status CompareToolchains(const Host& host) const {
    absl::Status others;
    for (const Toolchain& toolchain : toolchains_) {
      const auto own = host.toolchain(toolchain.target);
      if (!own.ok()) continue;
      if (*own == toolchain.id) return absl::OkStatus();
      others = absl::FailedPreconditionError(absl::StrCat(
          "its programs for ", toolchain.target, " were compiled with ", Describe(toolchain),
          " and its options, this host has ", Describe({toolchain.target, *own}),
          " and would never find them; where it is for another host, say --any-toolchain"));
    }
    return others;
  }

  static absl::Status Refused(const v1::FleetListing& listing, const absl::Status& why) {
    // That a blob is missing is damage here, and so is a kind that nobody knows.
    const bool damaged = absl::IsNotFound(why) || absl::IsInvalidArgument(why);
    const absl::StatusCode code = damaged ? absl::StatusCode::kDataLoss : why.code();
    return absl::Status(code, absl::StrCat(listing.name(), ": ", why.message()));
  }

  absl::Status CheckOne(const v1::FleetListing& listing, std::set<std::string>& named,
                        Imported& found) {
    TENSORD_ASSIGN_OR_RETURN(const fleet::Name name, ParseName(listing.name()));
    TENSORD_ASSIGN_OR_RETURN(const v1::FleetManifest manifest, GetListed(listing, name));
    TENSORD_RETURN_IF_ERROR(Count(name, manifest, found));
    TENSORD_ASSIGN_OR_RETURN(
        const fleet::Parcel parcel,
        exchange_.GetParcel(manifest, fleet::Exchange::Has(), absl::InfiniteFuture()));
    if (!parcel.complete) {
      return absl::DataLossError(parcel.refused > 0 ? "a blob of it is damaged"
                                                    : "a blob of it is missing");
    }
    TENSORD_RETURN_IF_ERROR(archive::Check(name, parcel));
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
    TENSORD_ASSIGN_OR_RETURN(const v1::FleetManifest manifest, GetListed(listing, name));
    return Take(store, exchange_, name, manifest, absl::InfiniteFuture(), taken);
  }

  const TarReader& reader_;
  fleet::Keys& keys_;
  ArchiveTier tier_;
  fleet::Exchange exchange_;
  v1::FleetContents contents_;
  std::vector<Toolchain> toolchains_;
};

// `store`: null for none.
absl::StatusOr<Imported> Read(store::Store* store, fleet::Keys& keys, const Host& host,
                              const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(const TarReader reader, TarReader::Open(path));
  Importer importer(path, &reader, &keys);
  TENSORD_RETURN_IF_ERROR(importer.ReadList(host));
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

absl::StatusOr<Imported> CheckFile(fleet::Keys& keys, const Host& host, const std::string& path) {
  auto found = Read(nullptr, keys, host, path);
  if (!found.ok()) return WithAdvice(path, found.status());
  return found;
}

absl::StatusOr<Imported> Import(store::Store& store, fleet::Keys& keys, const Host& host,
                                const std::string& path) {
  auto taken = Read(&store, keys, host, path);
  if (!taken.ok()) return WithAdvice(path, taken.status());
  return taken;
}

}  // namespace tensord::archive
