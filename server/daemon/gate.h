// SPDX-License-Identifier: Apache-2.0
// What is asked of calls that come by the network, before any of it is read. Calls by the Unix
// socket do not pass here.
#ifndef TENSORD_SERVER_DAEMON_GATE_H_
#define TENSORD_SERVER_DAEMON_GATE_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <memory>
#include <string_view>

#include "server/daemon/log_throttle.h"
#include "server/daemon/token_file.h"

namespace tensord::server {

struct Metrics;

// Whether the network may call a method: "/tensord.v1.Compiler/Compile".
bool OpenToTheNetwork(std::string_view method);

class Gate final : public grpc::AuthMetadataProcessor {
 public:
  // `tokens`: null where a client's certificate is all that is asked for. `metrics` outlives it.
  Gate(std::unique_ptr<TokenFile> tokens, Metrics* metrics)
      : tokens_(std::move(tokens)), metrics_(metrics) {}

  // It looks at one file, and waits for nobody.
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& brought, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* answer) override;

 private:
  const std::unique_ptr<TokenFile> tokens_;
  Metrics* const metrics_;
  LogThrottle refused_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_GATE_H_
