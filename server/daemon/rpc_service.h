// SPDX-License-Identifier: Apache-2.0
// The gRPC face of CompileService and FrameService, but for large requests (large_rpc.h). No
// request holds a thread while it waits.
#ifndef TENSORD_SERVER_DAEMON_RPC_SERVICE_H_
#define TENSORD_SERVER_DAEMON_RPC_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "server/compile/compile_service.h"
#include "server/frames/frame_service.h"
#include "server/ui/page.h"
#include "tensord/v1/service.grpc.pb.h"

namespace tensord::server {

struct CallCounts {
  using Clock = std::chrono::steady_clock;

  std::atomic<Clock::time_point> last{Clock::now()};  // when a client last called
  std::atomic<uint64_t> open{0};  // compiles, and finds and puts of frames, not answered

  void Called() { last = Clock::now(); }
};

std::unique_ptr<grpc::Service> MakeRpcService(CompileService* service, FrameService* frames,
                                              Page* page, CallCounts* counts);

// The bytes of a message, which leaves its pieces empty.
std::string TakeBytes(grpc::ByteBuffer& buffer);
grpc::ByteBuffer ToBuffer(const google::protobuf::Message& reply);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_RPC_SERVICE_H_
