// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/address.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace tensord::server {
namespace {

constexpr char kTlsScheme[] = "tls://";
constexpr char kThisHost[] = "127.0.0.1";
constexpr uint32_t kLastPort = 65535;

}  // namespace

std::string RuntimeFolder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return absl::StrCat(runtime, "/tensord");
  return absl::StrCat("/tmp/tensord-", getuid());
}

std::string HomeFolder(const char* variable, const char* below_home) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value == '/') return value;
  const char* home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "/tmp" : home, "/", below_home);
}

std::string DefaultStore() { return HomeFolder("XDG_CACHE_HOME", ".cache") + "/tensord"; }

std::string DefaultAddress() { return RuntimeFolder() + "/tensord.sock"; }

absl::StatusOr<std::string> SocketPath(const std::string& address) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix://")) absl::ConsumePrefix(&path, "unix:");
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' is not the address of a Unix socket: write unix:/folder/name.sock"));
  }
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the socket's path is too long (", path.size(),
                                                   " of at most ",
                                                   sizeof(sockaddr_un::sun_path) - 1, "): ", path));
  }
  return std::string(path);
}

std::string NetworkAddress::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<NetworkAddress> ParseNetworkAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const bool is_port = colon == std::string::npos;
  absl::string_view host = is_port ? kThisHost : absl::string_view(text).substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  uint32_t port = 0;
  if (host.empty() || absl::StrContains(host, ':') != bracketed ||
      host.find_first_of("/[]@ ") != absl::string_view::npos ||
      !absl::SimpleAtoi(is_port ? text : text.substr(colon + 1), &port) || port > kLastPort) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text,
        "' is no host and port: write 127.0.0.1:7464, 0.0.0.0:7464, [::1]:7464 or 7464"));
  }
  return NetworkAddress{std::string(host), absl::StrCat(port)};
}

bool IsTlsAddress(const std::string& address) { return absl::StartsWith(address, kTlsScheme); }

absl::StatusOr<NetworkAddress> ParseTlsAddress(const std::string& address) {
  const std::string text(absl::StripPrefix(address, kTlsScheme));
  const auto parsed = ParseNetworkAddress(text);
  if (!parsed.ok() || !IsTlsAddress(address) || !absl::StrContains(text, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address of a daemon: write tls://host:port"));
  }
  return parsed;
}

}  // namespace tensord::server
