// SPDX-License-Identifier: Apache-2.0
// Kernels between a store and a fleet, each under its own key, for hosts that compile another
// program of which some are. A kernel's key holds its source, flags, toolchain and architecture
// (server/compile/keys.h).
#ifndef TENSORD_SERVER_FLEET_KERNELS_H_
#define TENSORD_SERVER_FLEET_KERNELS_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "server/fleet/exchange.h"
#include "server/fleet/fleet.h"
#include "server/store/store.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::fleet {

Name KernelName(const std::string& key);

// The kernel's record and, among the parcel's blobs, its binary. DataLoss: it is no kernel, or
// another one. NotFound: the binary has gone.
absl::StatusOr<v1::FleetKernel> ReadKernel(const std::string& key, const Parcel& parcel);

// Takes those kernels into the store that are there, some at a time. After `answer` no more are
// asked for; blocks until what has been found then is carried.
void FetchKernels(Fleet& fleet, store::Store* store, const std::vector<std::string>& keys,
                  absl::Duration answer);

// Has those kernels of a program lie under their own names as well.
void AddKernels(const v1::FleetProgram& program, const std::vector<std::string>& keys,
                Parcel* parcel);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_KERNELS_H_
