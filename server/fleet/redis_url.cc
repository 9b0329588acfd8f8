// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/ascii.h>

#include <algorithm>
#include <utility>

#include "server/fleet/redis_tier.h"
#include "server/fleet/url.h"

namespace tensord::fleet {
namespace {

constexpr char kForm[] = "redis://user:password@host:port/database";
constexpr char kUnixForm[] = "redis+unix:///path/of/the/socket";

absl::Status NotOfForm(const char* form) {
  return absl::InvalidArgumentError(std::string(form) + " is the form of it");
}

}  // namespace

absl::StatusOr<RedisOptions> ParseRedisUrl(const std::string& text) {
  TENSORD_ASSIGN_OR_RETURN(Url url, ParseUrl(text, kForm));
  RedisOptions options;
  options.user = std::move(url.user);
  options.password = std::move(url.password);
  if (url.scheme == "redis+unix") {
    if (!url.host.empty() || url.path.empty()) return NotOfForm(kUnixForm);
    options.endpoint.path = std::move(url.path);
    return options;
  }
  if (url.scheme != "redis" && url.scheme != "rediss") return NotOfForm(kForm);
  options.endpoint.tls = url.scheme == "rediss";
  options.endpoint.host = std::move(url.host);
  options.endpoint.port = url.port.empty() ? "6379" : std::move(url.port);
  if (!url.path.empty()) options.database = url.path.substr(1);
  if (options.endpoint.host.empty() ||
      !std::all_of(options.database.begin(), options.database.end(), absl::ascii_isdigit)) {
    return NotOfForm(kForm);
  }
  return options;
}

}  // namespace tensord::fleet
