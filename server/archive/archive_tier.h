// SPDX-License-Identifier: Apache-2.0
// A file of `tensorctl export` as a tier that is only read: it has what a folder tier has, by the
// same names, and is trusted as little.
#ifndef TENSORD_SERVER_ARCHIVE_ARCHIVE_TIER_H_
#define TENSORD_SERVER_ARCHIVE_ARCHIVE_TIER_H_

#include <string>
#include <vector>

#include "server/archive/tar.h"
#include "server/fleet/tier.h"

namespace tensord::archive {

class ArchiveTier : public fleet::Tier {
 public:
  // The reader outlives it.
  ArchiveTier(std::string path, const TarReader* reader)
      : path_(std::move(path)), reader_(reader) {}

  std::string Where() const override { return path_; }
  absl::StatusOr<std::vector<std::optional<std::string>>> Get(
      const std::vector<fleet::Wanted>& wanted, absl::Time deadline) override;
  // FailedPrecondition, as are those below.
  absl::Status Put(const std::vector<fleet::Object>& objects, absl::Time deadline) override;
  absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                    absl::Duration lifetime, absl::Time deadline) override;
  absl::Status Release(const std::string& name, const std::string& value,
                       absl::Time deadline) override;

 private:
  const std::string path_;
  const TarReader* const reader_;
};

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_ARCHIVE_TIER_H_
