// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/host_and_port.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>

#include "server/rpc/address.h"

namespace tensord::server {
namespace {

bool IsIpv4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

}  // namespace

absl::StatusOr<std::string> HostAndPort(const std::string& text) {
  auto address = ParseNetworkAddress(text);
  if (address.ok() && address->host == "localhost") address->host = "127.0.0.1";
  if (!address.ok() || !IsIpv4(address->host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is no address to listen on: write 127.0.0.1:9464, 0.0.0.0:9464 or 9464"));
  }
  return address->ToString();
}

absl::StatusOr<std::string> LoopbackAndPort(const std::string& text) {
  TENSORD_ASSIGN_OR_RETURN(std::string address, HostAndPort(text));
  if (!absl::StartsWith(address, "127.")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is open to other hosts: write 127.0.0.1:PORT, and reach it from "
                     "elsewhere by ssh -L"));
  }
  return address;
}

}  // namespace tensord::server
