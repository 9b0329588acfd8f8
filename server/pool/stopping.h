// SPDX-License-Identifier: Apache-2.0
// What whoever asks a daemon that stops is told: its client knows these words (STOPPING in
// client/tensord/wire/rpc.py), and asks the next one.
#ifndef TENSORD_SERVER_POOL_STOPPING_H_
#define TENSORD_SERVER_POOL_STOPPING_H_

#include "base/status.h"

namespace tensord::server {

inline absl::Status Stopping() { return absl::UnavailableError("the daemon is stopping"); }

}  // namespace tensord::server

#endif  // TENSORD_SERVER_POOL_STOPPING_H_
