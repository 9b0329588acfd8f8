// SPDX-License-Identifier: Apache-2.0
// The daemon's page for browsers of this host, served from when somebody asks for it.
#ifndef TENSORD_SERVER_UI_PAGE_H_
#define TENSORD_SERVER_UI_PAGE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "server/http/http_server.h"
#include "server/ui/page_handler.h"
#include "server/ui/page_source.h"

namespace tensord::server {

class Page {
 public:
  // What `source` asks outlives it. `address`: the configured one; empty: a port that is free.
  Page(PageSource source, std::string address);
  ~Page();

  // Serves the page, if it is not yet served, and returns its URL, with the token behind `#`, which
  // browsers send to nobody. `address` instead of the configured one, if it is not empty.
  // InvalidArgument: it is not of this host alone. FailedPrecondition: the place is taken, or the
  // page is served at another one.
  absl::StatusOr<std::string> Open(const std::string& address = "");

 private:
  const PageSource source_;
  const std::string address_;
  absl::Mutex mutex_;
  std::unique_ptr<PageHandler> handler_ ABSL_GUARDED_BY(mutex_);  // outlives the server
  std::unique_ptr<HttpServer> server_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_PAGE_H_
