// SPDX-License-Identifier: Apache-2.0
// Where the daemon listens: a Unix socket, since the daemon trusts whoever can reach it, and beside
// it a port with TLS where that is wanted; and where it keeps its files.
#ifndef TENSORD_SERVER_RPC_ADDRESS_H_
#define TENSORD_SERVER_RPC_ADDRESS_H_

#include <string>

#include "base/status.h"

namespace tensord::server {

// $VARIABLE where it is an absolute path, else ~/BELOW_HOME: a folder of the XDG specification.
std::string HomeFolder(const char* variable, const char* below_home);

// Where programs are stored unless somebody says otherwise: $XDG_CACHE_HOME/tensord.
std::string DefaultStore();

// $XDG_RUNTIME_DIR/tensord, else /tmp/tensord-<uid>.
std::string RuntimeFolder();
std::string DefaultAddress();  // RuntimeFolder()/tensord.sock

// The path of "unix:/run/x.sock", "unix:///run/x.sock" or "/run/x.sock". InvalidArgument: something
// else, or too long for a socket.
absl::StatusOr<std::string> SocketPath(const std::string& address);

// A place in the network.
struct NetworkAddress {
  std::string host;  // IPv6 without brackets
  std::string port;  // digits

  std::string ToString() const;  // "host:port", with brackets around IPv6
};

// Of "host:port", "[::1]:port", or a port alone, which is of this host alone. InvalidArgument:
// something else.
absl::StatusOr<NetworkAddress> ParseNetworkAddress(const std::string& text);

// Whether it is "tls://host:port"; and that, which has a host.
bool IsTlsAddress(const std::string& address);
absl::StatusOr<NetworkAddress> ParseTlsAddress(const std::string& address);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_RPC_ADDRESS_H_
