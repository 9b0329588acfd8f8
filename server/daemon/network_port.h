// SPDX-License-Identifier: Apache-2.0
// A port with TLS beside the Unix socket (`listen_tls`), for jobs that share no socket with the
// daemon. TLS is 1.2 or newer; clients show a certificate, bring a token, or both.
#ifndef TENSORD_SERVER_DAEMON_NETWORK_PORT_H_
#define TENSORD_SERVER_DAEMON_NETWORK_PORT_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "server/config/config.h"

namespace tensord::server {

struct Metrics;

class NetworkPort {
 public:
  // Of a configuration with `listen_tls`. FailedPrecondition: a file of it is not what it should
  // be. `metrics` outlives the server.
  static absl::StatusOr<std::unique_ptr<NetworkPort>> Open(const Config& config, Metrics* metrics);

  // Has the server listen there. This outlives its start.
  void AddTo(grpc::ServerBuilder& builder);
  // The address; of a port 0 the one that was taken, once the server has started.
  std::string ToString() const;
  // "certificate", "token" or both.
  const std::string& asks_for() const { return asks_for_; }

 private:
  NetworkPort(std::string host, std::string port, std::string asks_for,
              std::shared_ptr<grpc::ServerCredentials> credentials);

  const std::string host_, port_, asks_for_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  int taken_ = 0;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_NETWORK_PORT_H_
