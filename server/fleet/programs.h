// SPDX-License-Identifier: Apache-2.0
// Programs between a store and a fleet. A program's key holds the toolchain and the compiler's
// build (server/program/keys.h), so hosts that differ in them never ask for the same name: what is
// found fits.
#ifndef TENSORD_SERVER_FLEET_PROGRAMS_H_
#define TENSORD_SERVER_FLEET_PROGRAMS_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "server/fleet/exchange.h"
#include "server/fleet/fleet.h"
#include "server/store/store.h"

namespace tensord::fleet {

// A stored program with its kernels, of which those with the keys `separate` lie under their own
// names as well (kernels.h). NotFound: it is not on disk, or not whole.
absl::StatusOr<Parcel> PackProgram(store::Store& store, const std::string& key,
                                   const std::vector<std::string>& separate = {});
// DataLoss: it is no program, or not whole. NotFound: blobs have gone.
absl::Status CheckProgram(const Parcel& parcel);
// Puts one into the store, which signs it as its own. Statuses as above, and the store's.
absl::Status TakeProgram(store::Store& store, const std::string& key, const Parcel& parcel);

// `store` outlives the search.
Fleet::Query ProgramQuery(store::Store* store, const std::string& key);
void PutProgram(Fleet& fleet, store::Store* store, const std::string& key,
                std::vector<std::string> separate = {});
Name ProgramName(const std::string& key);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_PROGRAMS_H_
