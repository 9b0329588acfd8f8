// SPDX-License-Identifier: Apache-2.0
// What a store takes from a tier or a file, by the kinds of manifests that there are: programs, and
// the frames of a place.
#ifndef TENSORD_SERVER_ARCHIVE_KINDS_H_
#define TENSORD_SERVER_ARCHIVE_KINDS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "server/fleet/exchange.h"
#include "server/store/store.h"

namespace tensord::archive {

// A compiler that made programs.
struct Toolchain {
  std::string target;  // "cpu avx512", "cuda sm90"
  std::string id;      // as in program keys

  auto operator<=>(const Toolchain&) const = default;
};
// Its compiler and version, for people.
std::string Describe(const Toolchain& toolchain);

struct Taken {
  uint64_t programs = 0;
  uint64_t frames = 0;
  uint64_t stored_before = 0;  // programs and frames, which are not written again
};

// Counts what a manifest has. InvalidArgument: nobody knows the name's kind.
absl::Status Count(const fleet::Name& name, const v1::FleetManifest& manifest, Taken& counts);
// Whether what came is whole, and what the name says. DataLoss, NotFound: it is not.
absl::Status Check(const fleet::Name& name, const fleet::Parcel& parcel);
// Fetches what a manifest has and the store lacks, and puts it there. DataLoss, NotFound: it is
// refused, or not whole. ResourceExhausted: the disk takes nothing. Anything else is the tier's
// trouble or the store's.
absl::Status Take(store::Store& store, fleet::Exchange& exchange, const fleet::Name& name,
                  const v1::FleetManifest& manifest, absl::Time deadline, Taken& taken);

// The name of "program/<hex>". DataLoss: it is none.
absl::StatusOr<fleet::Name> ParseName(const std::string& path);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_KINDS_H_
