// SPDX-License-Identifier: Apache-2.0
// The socket that the daemon listens on. It makes it, or a service manager holds it, so that it
// outlives restarts and whoever calls in between waits in its queue: by sd_listen_fds(3)'s
// protocol.
#ifndef TENSORD_SERVER_DAEMON_ACTIVATION_H_
#define TENSORD_SERVER_DAEMON_ACTIVATION_H_

#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

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

// Listens on a Unix socket of mode 0600, and closes and removes it when it goes.
class OwnSocket {
 public:
  // In the place of what another left behind: the caller has the socket's lock (SocketLock).
  // Unavailable: it cannot.
  static absl::StatusOr<std::unique_ptr<OwnSocket>> Listen(const std::string& path);
  ~OwnSocket();
  int fd() const { return fd_; }

 private:
  OwnSocket(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  const int fd_;
  const std::string path_;
};

// Hands the connections of a listening socket to a server, until it goes. Those that are still in
// the socket's queue stay there. gRPC's own listener ends for good when it once has no descriptor
// for a connection (1.51); this one waits for one.
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
