// SPDX-License-Identifier: Apache-2.0
// A file of `tensorctl export` (contents.h) that is read: its list, signed by a key that is
// accepted, and what that names, each verified as it is read. For whoever takes all of a file or
// nothing, Check() verifies it whole.
#ifndef TENSORD_SERVER_ARCHIVE_LISTED_FILE_H_
#define TENSORD_SERVER_ARCHIVE_LISTED_FILE_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "server/archive/archive_tier.h"
#include "server/archive/kinds.h"
#include "server/archive/tar.h"
#include "server/fleet/exchange.h"
#include "server/fleet/keys.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::archive {

class ListedFile {
 public:
  // `keys` outlive it. DataLoss: it is no such file, or its list is not signed by one of them.
  static absl::StatusOr<std::unique_ptr<ListedFile>> Open(const std::string& path,
                                                          fleet::Keys& keys);

  const v1::FleetContents& contents() const { return contents_; }
  // Of its manifests and blobs.
  fleet::Exchange& exchange() { return exchange_; }

  // Verifies all of it, and counts what it has. DataLoss says what is wrong: damaged, missing, not
  // the one that was listed, or there without being listed.
  absl::StatusOr<Taken> Check();

  struct Listed {
    fleet::Name name;
    v1::FleetManifest manifest;
  };
  // The manifest that the list means: no other that was signed for the name, before say.
  absl::StatusOr<Listed> Get(const v1::FleetListing& listing);
  // The same with all of its blobs, whole and what the name says.
  struct Opened : Listed {
    fleet::Parcel parcel;
  };
  absl::StatusOr<Opened> GetWhole(const v1::FleetListing& listing);

 private:
  ListedFile(const std::string& path, TarReader reader, fleet::Keys* keys)
      : reader_(std::move(reader)), tier_(path, &reader_), exchange_(&tier_, keys) {}

  const TarReader reader_;
  ArchiveTier tier_;
  fleet::Exchange exchange_;
  v1::FleetContents contents_;
};

// The same error, with the file's name and what to do about it.
absl::Status WithAdvice(const std::string& path, const absl::Status& status);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_LISTED_FILE_H_
