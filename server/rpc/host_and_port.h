// SPDX-License-Identifier: Apache-2.0
// Where metrics and pages are served.
#ifndef TENSORD_SERVER_RPC_HOST_AND_PORT_H_
#define TENSORD_SERVER_RPC_HOST_AND_PORT_H_

#include <string>

#include "base/status.h"

namespace tensord::server {

// "127.0.0.1:9464" of "9464", "localhost:9464" or itself; "0.0.0.0:9464" as it is. Without a host
// it is this one alone that can connect. InvalidArgument: something else, also an address of IPv6,
// which Debian's CivetWeb does not know.
absl::StatusOr<std::string> HostAndPort(const std::string& text);

// The same of this host alone: 127.0.0.1, or another address of it that begins with 127.
absl::StatusOr<std::string> LoopbackAndPort(const std::string& text);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_RPC_HOST_AND_PORT_H_
