// SPDX-License-Identifier: Apache-2.0
// URLs of servers: scheme://user:password@host:port/path. What has a meaning in one is written %XX
// in user and password.
#ifndef TENSORD_SERVER_FLEET_URL_H_
#define TENSORD_SERVER_FLEET_URL_H_

#include <string>

#include "base/status.h"

namespace tensord::fleet {

struct Url {
  std::string scheme;
  std::string user, password;  // empty: none
  std::string host;            // IPv6 without brackets; empty where there is none
  std::string port;            // digits; empty: none
  std::string path;            // with its first slash; empty: none
};

// InvalidArgument says what is wrong, and `form`, which is how such a URL is written.
absl::StatusOr<Url> ParseUrl(const std::string& text, const std::string& form);

// "host:port", with brackets around IPv6.
std::string HostAndPort(const std::string& host, const std::string& port);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_URL_H_
