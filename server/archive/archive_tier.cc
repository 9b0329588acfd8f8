// SPDX-License-Identifier: Apache-2.0
#include "server/archive/archive_tier.h"

#include "server/fleet/folder_tier.h"

namespace tensord::archive {
namespace {

absl::Status OnlyRead() { return absl::FailedPreconditionError("a file is only read"); }

}  // namespace

absl::StatusOr<std::vector<std::optional<std::string>>> ArchiveTier::Get(
    const std::vector<fleet::Wanted>& wanted, absl::Time /*deadline*/) {
  std::vector<std::optional<std::string>> all;
  for (const fleet::Wanted& one : wanted) {
    const auto entry = reader_->entries().find(fleet::FolderPath(one.name));
    if (entry == reader_->entries().end()) {
      all.emplace_back();
      continue;
    }
    const uint64_t most = one.bytes != 0 ? one.bytes : fleet::kMostUnknownBytes;
    TENSORD_ASSIGN_OR_RETURN(all.emplace_back(), reader_->Read(entry->second, most + 1));
  }
  return all;
}

absl::Status ArchiveTier::Put(const std::vector<fleet::Object>& /*objects*/, absl::Time) {
  return OnlyRead();
}

absl::StatusOr<std::string> ArchiveTier::Claim(const std::string& /*name*/,
                                               const std::string& /*value*/, absl::Duration,
                                               absl::Time) {
  return OnlyRead();
}

absl::Status ArchiveTier::Release(const std::string& /*name*/, const std::string& /*value*/,
                                  absl::Time) {
  return OnlyRead();
}

}  // namespace tensord::archive
