// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/host_and_port.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>

namespace tensord::server {
namespace {

constexpr char kThisHost[] = "127.0.0.1";
constexpr uint32_t kLastPort = 65535;

bool IsAddress(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

}  // namespace

absl::StatusOr<std::string> HostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? kThisHost : text.substr(0, colon);
  if (host == "localhost") host = kThisHost;
  uint32_t port = 0;
  if (!IsAddress(host) ||
      !absl::SimpleAtoi(colon == std::string::npos ? text : text.substr(colon + 1), &port) ||
      port > kLastPort) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is no address to listen on: write 127.0.0.1:9464, 0.0.0.0:9464 or 9464"));
  }
  return absl::StrCat(host, ":", port);
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
