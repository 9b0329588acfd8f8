// SPDX-License-Identifier: Apache-2.0
#include "server/ui/page_handler.h"

#include <absl/strings/match.h>

#include <utility>

#include "server/rpc/host_and_port.h"
#include "server/ui/api.h"
#include "server/ui/embedded.h"
#include "server/ui/token.h"

namespace tensord::server {
namespace {

// Whatever the port: it may be another one at the end of a tunnel.
bool NamesThisHost(const std::string& host) {
  return LoopbackAndPort(absl::StrContains(host, ':') ? host : host + ":80").ok();
}

std::string TypeOf(const std::string& path) {
  if (absl::EndsWith(path, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(path, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(path, ".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

}  // namespace

HttpServer::Headers PageHeaders() {
  return {{"Content-Security-Policy",
           "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
           "object-src 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

PageHandler::PageHandler(PageSource source, std::string token)
    : source_(std::move(source)), token_(std::move(token)), history_(source_.stats) {}

HttpReply PageHandler::Answer(const HttpRequest& request) const {
  if (request.method != "GET") return JsonError(405, "the page is only read: GET");
  if (!NamesThisHost(request.host)) {
    return JsonError(403, "the page is at 127.0.0.1 or localhost, not at the name that was asked");
  }
  if (absl::StartsWith(request.path, "/api/")) {
    if (!Brings(request.authorization, token_)) {
      return JsonError(401, "without the token of `tensorctl ui` nobody reads this");
    }
    return AnswerApi(source_, history_, request);
  }
  const std::string path = request.path == "/" ? "/index.html" : request.path;
  for (const PageFile& file : PageFiles()) {
    if (path == file.path) return {200, TypeOf(path), std::string(file.contents)};
  }
  return {404, "text/plain; charset=utf-8", "there is no such file\n"};
}

}  // namespace tensord::server
