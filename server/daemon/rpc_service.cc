// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/rpc_service.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "server/daemon/status_codes.h"

namespace tensord::server {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr size_t kPiece = 1 << 20;

// Sends one blob in pieces, each after the last has gone out.
class BlobWriter : public grpc::ServerWriteReactor<v1::BlobPiece> {
 public:
  explicit BlobWriter(absl::StatusOr<std::string> blob) : blob_(std::move(blob)) { Next(); }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone"));
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (!blob_.ok()) return Finish(ToGrpc(blob_.status()));
    if (at_ >= blob_->size()) return Finish(grpc::Status::OK);
    const size_t size = std::min(kPiece, blob_->size() - at_);
    piece_.set_data(blob_->substr(at_, size));
    at_ += size;
    StartWrite(&piece_);
  }

  absl::StatusOr<std::string> blob_;
  size_t at_ = 0;
  v1::BlobPiece piece_;
};

class RpcService final
    : public v1::Compiler::WithGenericMethod_Compile<v1::Compiler::CallbackService> {
 public:
  RpcService(CompileService* service, LastCall* last_call)
      : service_(service), last_call_(last_call) {}

  ServerUnaryReactor* Hello(CallbackServerContext* context, const v1::HelloRequest*,
                            v1::HelloReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    service_->Hello(reply, [this, reactor](absl::Status status) { End(reactor, status); });
    return reactor;
  }
  // Statistics are not work: whoever watches a daemon does not keep it from its idle exit.
  ServerUnaryReactor* GetStats(CallbackServerContext* context, const v1::GetStatsRequest*,
                               v1::Stats* reply) override {
    service_->FillStats(reply);
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  ServerUnaryReactor* ListToolchains(CallbackServerContext* context,
                                     const v1::ListToolchainsRequest*,
                                     v1::ToolchainList* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    service_->ListToolchains(reply, [this, reactor](absl::Status status) { End(reactor, status); });
    return reactor;
  }
  ServerUnaryReactor* ListPrograms(CallbackServerContext* context,
                                   const v1::ListProgramsRequest* request,
                                   v1::ListProgramsReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, service_->ListPrograms(request->limit(), reply));
    return reactor;
  }
  ServerUnaryReactor* GetProgram(CallbackServerContext* context,
                                 const v1::GetProgramRequest* request,
                                 v1::ProgramDetail* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, service_->GetProgram(*request, reply));
    return reactor;
  }
  grpc::ServerWriteReactor<v1::BlobPiece>* GetBlob(CallbackServerContext*,
                                                   const v1::GetBlobRequest* request) override {
    *last_call_ = SteadySeconds();
    return new BlobWriter(service_->ReadBlob(request->sha256()));
  }

 private:
  ServerUnaryReactor* Begin(CallbackServerContext* context) {
    *last_call_ = SteadySeconds();
    return context->DefaultReactor();
  }
  void End(ServerUnaryReactor* reactor, const absl::Status& status) {
    *last_call_ = SteadySeconds();
    reactor->Finish(ToGrpc(status));
  }

  CompileService* const service_;
  LastCall* const last_call_;
};

}  // namespace

int64_t SteadySeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::unique_ptr<grpc::Service> MakeRpcService(CompileService* service, LastCall* last_call) {
  return std::make_unique<RpcService>(service, last_call);
}

}  // namespace tensord::server
