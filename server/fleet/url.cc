// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/url.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>

#include "base/sha256.h"

namespace tensord::fleet {
namespace {

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

// What stands before `mark`, which goes with it; nothing where there is no mark.
std::string TakeUntil(std::string& text, size_t mark) {
  if (mark == std::string::npos) return "";
  std::string before = text.substr(0, mark);
  text.erase(0, mark + 1);
  return before;
}

// host:port; false: it is not.
bool ReadHost(std::string server, Url* url) {
  if (absl::StartsWith(server, "[")) {  // an address of IPv6
    server.erase(0, 1);
    url->host = TakeUntil(server, server.find(']'));
    if (url->host.empty()) return false;
  } else {
    const size_t colon = std::min(server.find(':'), server.size());
    url->host = server.substr(0, colon);
    server.erase(0, colon);
  }
  if (server.empty()) return true;
  url->port = server.substr(1);
  return server[0] == ':' && !url->host.empty() && !url->port.empty() &&
         std::all_of(url->port.begin(), url->port.end(), absl::ascii_isdigit);
}

}  // namespace

absl::StatusOr<Url> ParseUrl(const std::string& text, const std::string& form) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(form, " is the form of it"));
  Url url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) return wrong;
  url.scheme = text.substr(0, scheme_end);
  std::string rest = text.substr(scheme_end + 3);
  std::string login = TakeUntil(rest, rest.rfind('@'));
  const size_t colon = login.find(':');
  if (colon != std::string::npos) {
    TENSORD_ASSIGN_OR_RETURN(url.password, Unescaped(login.substr(colon + 1)));
    login.erase(colon);
  }
  TENSORD_ASSIGN_OR_RETURN(url.user, Unescaped(login));
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  if (!ReadHost(rest.substr(0, slash), &url)) return wrong;
  return url;
}

std::string HostAndPort(const std::string& host, const std::string& port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

}  // namespace tensord::fleet
