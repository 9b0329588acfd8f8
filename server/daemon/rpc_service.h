// SPDX-License-Identifier: Apache-2.0
// The gRPC face of CompileService, but for Compile (compile_rpc.h). No request holds a thread while
// it waits.
#ifndef TENSORD_SERVER_DAEMON_RPC_SERVICE_H_
#define TENSORD_SERVER_DAEMON_RPC_SERVICE_H_

#include <atomic>
#include <memory>

#include "server/compile/compile_service.h"
#include "tensord/v1/service.grpc.pb.h"

namespace tensord::server {

// When a client last called, for the idle exit: seconds of the steady clock.
using LastCall = std::atomic<int64_t>;

std::unique_ptr<grpc::Service> MakeRpcService(CompileService* service, LastCall* last_call);

int64_t SteadySeconds();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_RPC_SERVICE_H_
