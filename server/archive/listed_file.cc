// SPDX-License-Identifier: Apache-2.0
#include "server/archive/listed_file.h"

#include <absl/strings/str_cat.h>

#include <set>
#include <utility>

#include "base/sha256.h"
#include "server/archive/contents.h"
#include "server/fleet/folder_tier.h"
#include "server/log/quoted.h"

namespace tensord::archive {
namespace {

absl::Status Refused(const v1::FleetListing& listing, const absl::Status& why) {
  // That a blob is missing is damage here, and so is a kind that nobody knows.
  const bool damaged = absl::IsNotFound(why) || absl::IsInvalidArgument(why);
  const absl::StatusCode code = damaged ? absl::StatusCode::kDataLoss : why.code();
  return absl::Status(code, absl::StrCat(listing.name(), ": ", why.message()));
}

std::string PathOf(const v1::FleetBlob& blob) {
  return fleet::FolderPath(fleet::Name{"blob", blob.stored_sha256()}.Path());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListedFile>> ListedFile::Open(const std::string& path,
                                                             fleet::Keys& keys) {
  TENSORD_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(path));
  auto file = std::unique_ptr<ListedFile>(new ListedFile(path, std::move(reader), &keys));
  TENSORD_ASSIGN_OR_RETURN(file->contents_, ReadContents(file->reader_, keys));
  return file;
}

absl::StatusOr<Taken> ListedFile::Check() {
  Taken found;
  std::set<std::string> named{reader_.last()};
  for (const v1::FleetListing& listing : contents_.manifests()) {
    const auto opened = GetWhole(listing);
    const absl::Status status =
        opened.ok() ? Count(opened->name, opened->manifest, found) : opened.status();
    if (!status.ok()) return Refused(listing, status);
    named.insert(fleet::FolderPath(listing.name()));
    if (opened->manifest.has_content()) named.insert(PathOf(opened->manifest.content()));
    for (const v1::FleetBlob& blob : opened->manifest.blobs()) named.insert(PathOf(blob));
  }
  for (const auto& [name, entry] : reader_.entries()) {
    if (named.count(name) == 0) {
      return absl::DataLossError(absl::StrCat("nothing that it lists needs its ", Quoted(name)));
    }
  }
  return found;
}

absl::StatusOr<ListedFile::Listed> ListedFile::Get(const v1::FleetListing& listing) {
  Listed listed;
  TENSORD_ASSIGN_OR_RETURN(listed.name, ParseName(listing.name()));
  TENSORD_ASSIGN_OR_RETURN(const auto sealed,
                           tier_.Get({{listing.name()}}, absl::InfiniteFuture()));
  if (!sealed[0].has_value()) return absl::DataLossError("it is listed and missing");
  if (Sha256(*sealed[0]) != listing.sha256()) {
    return absl::DataLossError("it is not the one that was listed");
  }
  TENSORD_ASSIGN_OR_RETURN(listed.manifest,
                           exchange_.GetManifest(listed.name, absl::InfiniteFuture()));
  return listed;
}

absl::StatusOr<ListedFile::Opened> ListedFile::GetWhole(const v1::FleetListing& listing) {
  TENSORD_ASSIGN_OR_RETURN(Listed listed, Get(listing));
  Opened opened{std::move(listed), {}};
  TENSORD_ASSIGN_OR_RETURN(
      opened.parcel,
      exchange_.GetParcel(opened.manifest, fleet::Exchange::Has(), absl::InfiniteFuture()));
  if (!opened.parcel.complete) {
    return absl::DataLossError(opened.parcel.refused > 0 ? "a blob of it is damaged"
                                                         : "a blob of it is missing");
  }
  TENSORD_RETURN_IF_ERROR(archive::Check(opened.name, opened.parcel));
  return opened;
}

absl::Status WithAdvice(const std::string& path, const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat(path, ": ", status.message(),
                   absl::IsDataLoss(status)
                       ? ". Nothing of it was taken: copy it again, or have it exported again by a "
                         "host whose key is in fleet_trust"
                       : ""));
}

}  // namespace tensord::archive
