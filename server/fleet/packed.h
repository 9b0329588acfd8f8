// SPDX-License-Identifier: Apache-2.0
// A blob as a tier has it: compressed with zstd.
#ifndef TENSORD_SERVER_FLEET_PACKED_H_
#define TENSORD_SERVER_FLEET_PACKED_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::fleet {

// Of one blob, and of all blobs of a manifest.
inline constexpr uint64_t kMostBlobBytes = 256 << 20;
inline constexpr uint64_t kMostParcelBytes = 512 << 20;

// The compressed bytes; fills in all of `blob` but its note.
std::string Pack(std::string_view content, v1::FleetBlob* blob);
// The content. DataLoss: `stored` has not the digest that `blob` says, or not that content, or one
// larger than it says; no more memory is taken than that.
absl::StatusOr<std::string> Unpack(std::string_view stored, const v1::FleetBlob& blob);

// DataLoss: digests are no digests, or it would all be larger than anything that is shared.
absl::Status CheckSizes(const v1::FleetManifest& manifest);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_PACKED_H_
