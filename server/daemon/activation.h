// SPDX-License-Identifier: Apache-2.0
// A listening socket that the daemon did not make: a service manager holds it, so that it outlives
// restarts and whoever calls in between waits in its queue. The protocol is sd_listen_fds(3)'s.
#ifndef TENSORD_SERVER_DAEMON_ACTIVATION_H_
#define TENSORD_SERVER_DAEMON_ACTIVATION_H_

#include <grpcpp/server.h>

#include <optional>
#include <string>
#include <thread>

#include "base/status.h"

namespace tensord::server {

struct PassedSocket {
  int fd = -1;  // closed in children
  std::string path;
};

// The socket that LISTEN_FDS says was passed to this process; nothing when none was. Removes the
// variables, which are not for children. InvalidArgument: not exactly one listening Unix socket
// with a path.
absl::StatusOr<std::optional<PassedSocket>> TakePassedSocket();

// Hands the connections of a listening socket to a server, until it goes. Those that are still in
// the socket's queue stay there.
class Acceptor {
 public:
  // `server` is started and outlives this; `fd` stays open.
  Acceptor(grpc::Server* server, int fd);
  ~Acceptor();

 private:
  void Accept();

  grpc::Server* const server_;
  const int fd_;
  const int stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_ACTIVATION_H_
