// SPDX-License-Identifier: Apache-2.0
#include "server/archive/file_sources.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/arena.h>

#include <utility>

#include "base/version.h"

namespace tensord::archive {
namespace {

// What was verified a moment ago.
absl::Status Changed(const std::string& what) {
  return absl::AbortedError(absl::StrCat(what, ": the file has changed while it was read"));
}

}  // namespace

absl::StatusOr<FileSources> FileSources::Open(const std::string& path, fleet::Keys& keys) {
  auto file = ListedFile::Open(path, keys);
  if (!file.ok()) return WithAdvice(path, file.status());
  const v1::FleetContents& contents = (*file)->contents();
  if (contents.frame_format() != kFrameFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": it was exported by tensord ", contents.version(), ", whose frames have format ",
        contents.frame_format(), " where this one's have ", kFrameFormat,
        ", so that no job would ask for them: export what a job with this version has captured"));
  }
  if (const auto checked = (*file)->Check(); !checked.ok()) {
    return WithAdvice(path, checked.status());
  }
  return FileSources(*std::move(file));
}

absl::Status FileSources::Show(const std::string& kind, const OnParcel& show) const {
  for (const v1::FleetListing& listing : file_->contents().manifests()) {
    if (!absl::StartsWith(listing.name(), kind + "/")) continue;
    const auto opened = file_->GetWhole(listing);
    if (!opened.ok()) return Changed(listing.name());
    TENSORD_RETURN_IF_ERROR(show(opened->parcel));
  }
  return absl::OkStatus();
}

absl::Status FileSources::ShowPrograms(
    const std::function<absl::Status(const v1::Artifact&)>& show) const {
  return Show("program", [&](const fleet::Parcel& parcel) {
    google::protobuf::Arena arena;
    auto& program = *google::protobuf::Arena::CreateMessage<v1::FleetProgram>(&arena);
    auto& artifact = *google::protobuf::Arena::CreateMessage<v1::Artifact>(&arena);
    const bool parsed = parcel.content.has_value() && program.ParseFromString(*parcel.content) &&
                        artifact.ParseFromString(program.payload());
    return parsed ? show(artifact) : Changed("a program");
  });
}

absl::Status FileSources::ShowFrames(
    const std::function<absl::Status(const v1::Frame&)>& show) const {
  return Show("frames", [&](const fleet::Parcel& parcel) {
    for (const fleet::Blob& blob : parcel.blobs) {
      google::protobuf::Arena arena;
      auto& frame = *google::protobuf::Arena::CreateMessage<v1::Frame>(&arena);
      if (!frame.ParseFromString(blob.bytes.value_or(""))) return Changed("a frame");
      TENSORD_RETURN_IF_ERROR(show(frame));
    }
    return absl::OkStatus();
  });
}

}  // namespace tensord::archive
