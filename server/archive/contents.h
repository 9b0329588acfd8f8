// SPDX-License-Identifier: Apache-2.0
// The list of what a file of `tensorctl export` has: its last entry, signed. Manifests say which
// blobs belong to them, the list which manifests there are, so that nothing can be taken off or
// added unseen.
//
//   blob/ab/<sha256>       as in a tier, behind each other in tar's form (tar.h): unpacked, the
//   file program/ab/<hex>       is a folder tier (server/fleet/folder_tier.h) frames/ab/<hex>
//   ...
//   contents/ab/<sha256>   FleetContents, sealed
#ifndef TENSORD_SERVER_ARCHIVE_CONTENTS_H_
#define TENSORD_SERVER_ARCHIVE_CONTENTS_H_

#include <string>

#include "server/archive/tar.h"
#include "server/fleet/keys.h"
#include "server/fleet/sealed.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::archive {

absl::Status WriteContents(TarWriter& writer, fleet::Keys& keys, const v1::FleetContents& contents);
// DataLoss: there is no list, or it is not signed by a key that is accepted.
absl::StatusOr<v1::FleetContents> ReadContents(const TarReader& reader, fleet::Keys& keys);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_CONTENTS_H_
