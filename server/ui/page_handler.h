// SPDX-License-Identifier: Apache-2.0
// Who may read the page, and what answers which path.
#ifndef TENSORD_SERVER_UI_PAGE_HANDLER_H_
#define TENSORD_SERVER_UI_PAGE_HANDLER_H_

#include <string>

#include "server/http/http_server.h"
#include "server/ui/history.h"
#include "server/ui/page_source.h"

namespace tensord::server {

// Of every reply: the page loads what is this server's and nothing else, is shown in no other page,
// and nothing of it is kept.
HttpServer::Headers PageHeaders();

class PageHandler {
 public:
  // `token`: what the reader must bring (token.h).
  PageHandler(PageSource source, std::string token);

  // The page's files for everyone, for they say nothing; what is below /api/ (api.h) for whoever
  // brings the token. 405: not GET. 403: the browser was sent to this host by another name than its
  // own, as a page elsewhere could do that has its name lead here. 401: no token. 404: no such
  // file.
  HttpReply Answer(const HttpRequest& request) const;

  const std::string& token() const { return token_; }

 private:
  const PageSource source_;
  const std::string token_;
  const History history_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_PAGE_HANDLER_H_
