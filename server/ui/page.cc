// SPDX-License-Identifier: Apache-2.0
#include "server/ui/page.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "server/rpc/host_and_port.h"
#include "server/ui/token.h"

namespace tensord::server {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";

}  // namespace

Page::Page(PageSource source, std::string address)
    : source_(std::move(source)), address_(std::move(address)) {}

Page::~Page() = default;

absl::StatusOr<std::string> Page::Open(const std::string& address) {
  const std::string wanted = !address.empty() ? address : !address_.empty() ? address_ : kAnyPort;
  TENSORD_ASSIGN_OR_RETURN(const std::string place, LoopbackAndPort(wanted));
  absl::MutexLock lock(&mutex_);
  if (server_ == nullptr) {
    auto handler = std::make_unique<PageHandler>(source_, MakeToken());
    auto server = HttpServer::Listen(
        place, PageHeaders(),
        [raw = handler.get()](const HttpRequest& request) { return raw->Answer(request); });
    if (!server.ok()) return absl::FailedPreconditionError(server.status().message());
    handler_ = std::move(handler);
    server_ = *std::move(server);
  }
  const std::string served = absl::StrCat(server_->host(), ":", server_->port());
  if (!address.empty() && place != served && !absl::EndsWith(place, ":0")) {
    return absl::FailedPreconditionError(absl::StrCat("the page is served at ", served));
  }
  return absl::StrCat("http://", served, "/#token=", handler_->token());
}

}  // namespace tensord::server
