// SPDX-License-Identifier: Apache-2.0
// CompileLarge: a request is received when there is memory for it, which takes more of gRPC's
// threads than what is received at once. None holds one while it waits.
#ifndef TENSORD_SERVER_DAEMON_LARGE_RPC_H_
#define TENSORD_SERVER_DAEMON_LARGE_RPC_H_

#include <absl/time/time.h>
#include <grpcpp/generic/async_generic_service.h>

#include "server/compile/compile_service.h"
#include "server/daemon/rpc_service.h"

namespace tensord::server {

// Longer requests are refused: parsed, a graph takes some twenty times its bytes. The largest that
// models were seen to have is 170 kB.
inline constexpr int kMaxRequestBytes = 64 << 20;

// A client says how long its request is in the metadata "tensord-request-bytes"; of others some are
// received at once.
class LargeRpc : public grpc::CallbackGenericService {
 public:
  // A request that is large is to be received within `limit`.
  LargeRpc(CompileService* service, CallCounts* counts, absl::Duration limit)
      : service_(service), counts_(counts), limit_(limit) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  class Call;

  CompileService* const service_;
  CallCounts* const counts_;
  const absl::Duration limit_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_LARGE_RPC_H_
