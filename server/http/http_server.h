// SPDX-License-Identifier: Apache-2.0
// A small server of HTTP on this host: CivetWeb, with one function that answers.
#ifndef TENSORD_SERVER_HTTP_HTTP_SERVER_H_
#define TENSORD_SERVER_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

struct mg_connection;
struct mg_context;

namespace tensord::server {

struct HttpRequest {
  std::string method;         // "GET"
  std::string path;           // decoded: "/api/stats"
  std::string query;          // encoded, without its question mark
  std::string host;           // the header; empty: none
  std::string authorization;  // likewise

  // The value of a parameter of the query, decoded; empty: it has none of that name.
  std::string Parameter(const std::string& name) const;
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // Called by several threads.
  using Handler = std::function<HttpReply(const HttpRequest&)>;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `address`: of an interface, in numbers, and a port: "127.0.0.1:8080"; port 0: one that is free.
  // `headers`: of every reply. Unavailable: the place is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const std::string& address,
                                                            Headers headers, Handler handler);
  ~HttpServer();

  const std::string& host() const { return host_; }
  int port() const { return port_; }

 private:
  HttpServer(std::string host, Headers headers, Handler handler);
  static int Begin(mg_connection* connection);
  void Answer(mg_connection* connection) const;

  const std::string host_;
  const Headers headers_;
  const Handler handler_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_HTTP_HTTP_SERVER_H_
