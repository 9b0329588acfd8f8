// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_server.h"

#include <absl/strings/str_cat.h>
#include <civetweb.h>

#include "server/http/end_at_once.h"

namespace tensord::server {
namespace {

// A browser asks for six things at once; a caller that says nothing holds a thread for five
// seconds.
constexpr char kThreads[] = "8";
constexpr char kSilenceMs[] = "5000";
constexpr size_t kLongestParameter = 1024;

std::string TextOr(const char* text) { return text == nullptr ? "" : text; }

HttpRequest ReadRequest(mg_connection* connection) {
  const mg_request_info& info = *mg_get_request_info(connection);
  HttpRequest request;
  request.method = TextOr(info.request_method);
  request.path = TextOr(info.local_uri);
  request.query = TextOr(info.query_string);
  request.host = TextOr(mg_get_header(connection, "Host"));
  request.authorization = TextOr(mg_get_header(connection, "Authorization"));
  return request;
}

// What it says is of callers that leave, and of the ends of its threads.
int DropMessage(const mg_connection* /*connection*/, const char* /*message*/) { return 1; }

}  // namespace

std::string HttpRequest::Parameter(const std::string& name) const {
  char value[kLongestParameter];
  const int size = mg_get_var(query.data(), query.size(), name.c_str(), value, sizeof value);
  return size < 0 ? "" : std::string(value, static_cast<size_t>(size));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const std::string& address,
                                                               Headers headers, Handler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(address.substr(0, address.rfind(':')),
                                                    std::move(headers), std::move(handler)));
  mg_callbacks callbacks{};
  callbacks.begin_request = Begin;
  callbacks.log_message = DropMessage;
  // No folder is served, and no other origin may read what is.
  const char* options[] = {"listening_ports",
                           address.c_str(),
                           "num_threads",
                           kThreads,
                           "request_timeout_ms",
                           kSilenceMs,
                           "access_control_allow_origin",
                           "",
                           "access_control_allow_methods",
                           "",
                           "enable_auth_domain_check",
                           "no",
                           nullptr};
  mg_init_library(0);
  server->context_ = mg_start(&callbacks, server.get(), options);
  mg_server_port ports[1];
  if (server->context_ == nullptr || mg_get_server_ports(server->context_, 1, ports) != 1) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  server->port_ = ports[0].port;
  return server;
}

HttpServer::HttpServer(std::string host, Headers headers, Handler handler)
    : host_(std::move(host)), headers_(std::move(headers)), handler_(std::move(handler)) {}

HttpServer::~HttpServer() {
  if (context_ != nullptr) EndAtOnce(host_, port_, [this] { mg_stop(context_); });
  mg_exit_library();
}

int HttpServer::Begin(mg_connection* connection) {
  static_cast<const HttpServer*>(mg_get_user_data(mg_get_context(connection)))->Answer(connection);
  return 1;
}

void HttpServer::Answer(mg_connection* connection) const {
  const HttpReply reply = handler_(ReadRequest(connection));
  std::string head = absl::StrCat(
      "HTTP/1.1 ", reply.status, " ", mg_get_response_code_text(connection, reply.status),
      "\r\nContent-Type: ", reply.type, "\r\nContent-Length: ", reply.body.size(),
      "\r\nConnection: close\r\n");
  for (const auto& [name, value] : headers_) absl::StrAppend(&head, name, ": ", value, "\r\n");
  head += "\r\n";
  mg_write(connection, head.data(), head.size());
  mg_write(connection, reply.body.data(), reply.body.size());
}

}  // namespace tensord::server
