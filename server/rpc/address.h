// SPDX-License-Identifier: Apache-2.0
// Where the daemon listens: a Unix socket, the only address there is, since the daemon trusts
// whoever can reach it.
#ifndef TENSORD_SERVER_RPC_ADDRESS_H_
#define TENSORD_SERVER_RPC_ADDRESS_H_

#include <string>

#include "base/status.h"

namespace tensord::server {

// $XDG_RUNTIME_DIR/tensord, else /tmp/tensord-<uid>.
std::string RuntimeFolder();
std::string DefaultAddress();  // RuntimeFolder()/tensord.sock

// The path of "unix:/run/x.sock", "unix:///run/x.sock" or "/run/x.sock". InvalidArgument: something
// else, or too long for a socket.
absl::StatusOr<std::string> SocketPath(const std::string& address);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_RPC_ADDRESS_H_
