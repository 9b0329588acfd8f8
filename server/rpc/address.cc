// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/address.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

namespace tensord::server {

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

}  // namespace tensord::server
