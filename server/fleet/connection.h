// SPDX-License-Identifier: Apache-2.0
// A connection to a server, over TCP or a Unix socket, with TLS or without, on which nothing waits
// past a deadline.
#ifndef TENSORD_SERVER_FLEET_CONNECTION_H_
#define TENSORD_SERVER_FLEET_CONNECTION_H_

#include <absl/time/time.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace tensord::fleet {

struct Endpoint {
  std::string path;  // of a Unix socket; or else:
  std::string host;
  std::string port;
  bool tls = false;  // 1.2 or newer; the server's certificate is for `host`
  std::string ca;    // file of the authorities that count; empty: the system's

  std::string ToString() const;
};

// Used by one thread at a time. Errors are Unavailable and DeadlineExceeded.
class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Endpoint& endpoint,
                                                          absl::Time deadline);
  virtual ~Connection() = default;

  // All of it.
  absl::Status Write(const std::string& bytes, absl::Time deadline);
  // Some bytes, at least one; 0: the other side has closed.
  absl::StatusOr<size_t> Read(char* buffer, size_t size, absl::Time deadline);

 protected:
  // What one attempt came to: bytes, or what to wait for.
  struct Step {
    size_t done = 0;
    short wait = 0;  // POLLIN, POLLOUT
    bool closed = false;
    absl::Status status;
  };
  virtual Step TryWrite(const char* data, size_t size) = 0;
  virtual Step TryRead(char* data, size_t size) = 0;
  virtual int fd() const = 0;
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_CONNECTION_H_
