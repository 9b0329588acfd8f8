// SPDX-License-Identifier: Apache-2.0
// Kernels between a store and a fleet, each under its own key, for hosts that compile another
// program of which some are. A kernel's key holds its source, flags, toolchain and architecture
// (server/program/keys.h).
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

// Whether a blob is in the store, and sound: it need not be fetched. `store` outlives it.
Exchange::Has IsStored(store::Store* store);
// Puts a kernel into the store. `blob`: its binary, without its bytes where the store has it
// already, under another kernel's key. NotFound: it has gone.
absl::Status PutKernel(store::Store& store, const v1::FleetKernel& kernel, const Blob& blob);

// The kernel's record and, among the parcel's blobs, its binary. DataLoss: it is no kernel, or
// another one. NotFound: the binary has gone.
absl::StatusOr<v1::FleetKernel> ReadKernel(const std::string& key, const Parcel& parcel);

// Takes those kernels into the store that are there, some at a time. After `answer` no more are
// asked for; blocks until what has been found then is carried. Each is taken within `around`.
void FetchKernels(Fleet& fleet, store::Store* store, const std::vector<std::string>& keys,
                  absl::Duration answer, const Around& around);

// Of a program's parcel: the kernel, which lies under its own name as well.
Parcel::Part KernelPart(const v1::FleetKernel& kernel);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_KERNELS_H_
