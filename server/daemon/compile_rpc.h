// SPDX-License-Identifier: Apache-2.0
// The gRPC face of CompileService::Compile. No request holds a thread while it waits, and a large
// one is received when there is memory for it.
#ifndef TENSORD_SERVER_DAEMON_COMPILE_RPC_H_
#define TENSORD_SERVER_DAEMON_COMPILE_RPC_H_

#include <absl/time/time.h>
#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <cstdint>

#include "server/compile/compile_service.h"
#include "server/daemon/rpc_service.h"

namespace tensord::server {

// Longer requests are refused: parsed, a graph takes some twenty times its bytes. The largest that
// models were seen to have is 170 kB.
inline constexpr int kMaxRequestBytes = 64 << 20;

// A client says how long its request is in the metadata "tensord-request-bytes"; of others some are
// received at once.
class CompileRpc : public grpc::CallbackGenericService {
 public:
  // A request that is large is to be received within `limit`.
  CompileRpc(CompileService* service, LastCall* last_call, absl::Duration limit)
      : service_(service), last_call_(last_call), limit_(limit) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  // Calls that have come and whose answer is not yet sent.
  uint64_t Calls() const { return calls_; }

 private:
  class Call;

  CompileService* const service_;
  LastCall* const last_call_;
  const absl::Duration limit_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_COMPILE_RPC_H_
