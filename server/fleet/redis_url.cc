// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "server/fleet/redis_tier.h"

namespace tensord::fleet {
namespace {

constexpr char kForm[] = "redis://user:password@host:port/database is the form of it";

absl::StatusOr<std::string> Unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const std::string byte = i + 2 < text.size() ? FromHex(text.substr(i + 1, 2)) : "";
    if (byte.size() != 1) return absl::InvalidArgumentError("after a % there are two hex digits");
    plain += byte;
    i += 2;
  }
  return plain;
}

bool IsNumber(const std::string& text) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// What stands before `mark`, which goes with it; nothing where there is no mark.
std::string TakeUntil(std::string& text, size_t mark) {
  if (mark == std::string::npos) return "";
  std::string before = text.substr(0, mark);
  text.erase(0, mark + 1);
  return before;
}

absl::Status ReadServer(std::string server, RedisOptions* options) {
  Endpoint& endpoint = options->endpoint;
  const size_t slash = server.find('/');
  if (slash != std::string::npos) {
    options->database = server.substr(slash + 1);
    server.erase(slash);
  }
  if (absl::StartsWith(server, "[")) {  // an address of IPv6
    server.erase(0, 1);
    endpoint.host = TakeUntil(server, server.find(']'));
    if (!server.empty() && server[0] != ':') return absl::InvalidArgumentError(kForm);
  } else {
    const size_t colon = std::min(server.find(':'), server.size());
    endpoint.host = server.substr(0, colon);
    server.erase(0, colon);
  }
  endpoint.port = server.empty() ? "6379" : server.substr(1);
  if (endpoint.host.empty() || endpoint.port.empty() || !IsNumber(endpoint.port) ||
      !IsNumber(options->database)) {
    return absl::InvalidArgumentError(kForm);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RedisOptions> ParseRedisUrl(const std::string& url) {
  RedisOptions options;
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string::npos) return absl::InvalidArgumentError(kForm);
  const std::string scheme = url.substr(0, scheme_end);
  std::string rest = url.substr(scheme_end + 3);
  std::string login = TakeUntil(rest, rest.rfind('@'));
  const size_t colon = login.find(':');
  if (colon != std::string::npos) {
    TENSORD_ASSIGN_OR_RETURN(options.password, Unescaped(login.substr(colon + 1)));
    login.erase(colon);
  }
  TENSORD_ASSIGN_OR_RETURN(options.user, Unescaped(login));
  if (scheme == "redis+unix") {
    if (!absl::StartsWith(rest, "/")) {
      return absl::InvalidArgumentError("redis+unix:///path/of/the/socket is the form of it");
    }
    options.endpoint.path = rest;
    return options;
  }
  if (scheme != "redis" && scheme != "rediss") return absl::InvalidArgumentError(kForm);
  options.endpoint.tls = scheme == "rediss";
  TENSORD_RETURN_IF_ERROR(ReadServer(std::move(rest), &options));
  return options;
}

}  // namespace tensord::fleet
