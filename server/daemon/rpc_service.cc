// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/rpc_service.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/daemon/fill_stats.h"
#include "server/daemon/status_codes.h"
#include "server/daemon/watch.h"
#include "server/daemon/watch_stats.h"
#include "server/profiles/check_profile.h"
#include "server/traces/check_spans.h"

namespace tensord::server {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr size_t kPiece = 1 << 20;

Origin OriginOf(const CallbackServerContext& context) {
  const std::string peer = context.peer();
  return absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:") ? Origin::kNetwork
                                                                            : Origin::kThisHost;
}

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

// May wait for another process's capture.
class FindFramesCall : public ServerUnaryReactor {
 public:
  FindFramesCall(FrameService* frames, OwnSteps& steps, CallCounts* counts,
                 const v1::FindFramesRequest& request, v1::FindFramesReply* reply, Origin origin)
      : frames_(frames), counts_(counts) {
    ++counts_->open;
    // It waits for others after this.
    const auto step = steps.Begin(ProcessOf(request.caller()), absl::ZeroDuration());
    search_ = frames_->Find(
        request, reply,
        [this](const absl::Status& status) {
          counts_->Called();
          --counts_->open;
          Finish(ToGrpc(status));
        },
        origin, &steps);
  }
  void OnCancel() override { frames_->Cancel(search_); }
  void OnDone() override { delete this; }

 private:
  FrameService* const frames_;
  CallCounts* const counts_;
  FrameService::SearchPtr search_;
};

class RpcService final
    : public v1::Compiler::WithRawCallbackMethod_Compile<
          v1::Compiler::WithRawCallbackMethod_PutFrame<v1::Compiler::WithRawCallbackMethod_PutSpans<
              v1::Compiler::WithRawCallbackMethod_PutProfile<
                  v1::Compiler::WithGenericMethod_CompileLarge<v1::Compiler::CallbackService>>>>> {
 public:
  RpcService(CompileService* service, FrameService* frames, Page* page, CallCounts* counts)
      : service_(service), frames_(frames), page_(page), counts_(counts) {}

  ServerUnaryReactor* Hello(CallbackServerContext* context, const v1::HelloRequest*,
                            v1::HelloReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    // Of the network: process numbers of containers collide, and another host has another clock.
    const bool here = OriginOf(*context) == Origin::kThisHost;
    service_->Hello(reply, [this, reactor, reply, here](absl::Status status) {
      if (!here) reply->clear_takes_spans();
      End(reactor, status);
    });
    return reactor;
  }
  ServerUnaryReactor* Compile(CallbackServerContext* context, const grpc::ByteBuffer* request,
                              grpc::ByteBuffer* answer) override {
    ServerUnaryReactor* reactor = Begin(context);
    ++counts_->open;
    grpc::ByteBuffer copy = *request;  // of references to its pieces
    std::string bytes = TakeBytes(copy);
    RequestMemory::Share share = service_->request_memory().Take(bytes.size());
    auto reply = std::make_shared<v1::CompileReply>();
    v1::CompileReply* const raw = reply.get();
    service_->Compile(
        std::move(bytes), std::move(share), raw,
        [this, reactor, answer, reply = std::move(reply)](const absl::Status& status) {
          if (status.ok()) *answer = ToBuffer(*reply);
          --counts_->open;
          End(reactor, status);
        });
    return reactor;
  }
  // Statistics are not work: whoever watches a daemon does not keep it from its idle exit.
  ServerUnaryReactor* GetStats(CallbackServerContext* context, const v1::GetStatsRequest*,
                               v1::Stats* reply) override {
    FillStats(*service_, *frames_, reply);
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerWriteReactor<v1::StatsUpdate>* WatchStats(
      CallbackServerContext*, const v1::WatchStatsRequest* request) override {
    return NewStatsWatch(WatchInterval(request->interval_milliseconds()),
                         [this](v1::Stats* stats) { FillStats(*service_, *frames_, stats); });
  }
  grpc::ServerWriteReactor<v1::CompilesUpdate>* WatchCompiles(
      CallbackServerContext*, const v1::WatchCompilesRequest* request) override {
    return new Watch<v1::CompilesUpdate>(
        WatchInterval(request->interval_milliseconds()),
        [this, request = *request](v1::CompilesUpdate* update, absl::Duration) {
          *update = service_->board().Read(request);
        });
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
    End(reactor, service_->ListPrograms(*request, reply));
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
    counts_->Called();
    return new BlobWriter(service_->ReadBlob(request->sha256()));
  }

  ServerUnaryReactor* FindFrames(CallbackServerContext* context,
                                 const v1::FindFramesRequest* request,
                                 v1::FindFramesReply* reply) override {
    counts_->Called();
    return new FindFramesCall(frames_, service_->board().steps(), counts_, *request, reply,
                              OriginOf(*context));
  }
  ServerUnaryReactor* PutFrame(CallbackServerContext* context, const grpc::ByteBuffer* request,
                               grpc::ByteBuffer* answer) override {
    ServerUnaryReactor* reactor = Begin(context);
    ++counts_->open;
    grpc::ByteBuffer copy = *request;  // of references to its pieces
    std::string bytes = TakeBytes(copy);
    auto share =
        std::make_shared<RequestMemory::Share>(service_->request_memory().Take(bytes.size()));
    auto reply = std::make_shared<v1::PutFrameReply>();
    v1::PutFrameReply* const raw = reply.get();
    frames_->Put(std::move(bytes), raw,
                 [this, reactor, answer, reply = std::move(reply),
                  share = std::move(share)](const absl::Status& status) {
                   if (status.ok()) *answer = ToBuffer(*reply);
                   --counts_->open;
                   End(reactor, status);
                 });
    return reactor;
  }
  ServerUnaryReactor* EndCapture(CallbackServerContext* context,
                                 const v1::EndCaptureRequest* request,
                                 v1::EndCaptureReply*) override {
    ServerUnaryReactor* reactor = Begin(context);
    frames_->EndCapture(*request);
    End(reactor, absl::OkStatus());
    return reactor;
  }
  ServerUnaryReactor* UseFrames(CallbackServerContext* context, const v1::UseFramesRequest* request,
                                v1::UseFramesReply*) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, frames_->Use(*request));
    return reactor;
  }
  ServerUnaryReactor* ListMisses(CallbackServerContext* context,
                                 const v1::ListMissesRequest* request,
                                 v1::ListMissesReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    frames_->ListMisses(*request, reply);
    service_->ListMisses(*request, reply);
    End(reactor, absl::OkStatus());
    return reactor;
  }
  ServerUnaryReactor* ListFrames(CallbackServerContext* context,
                                 const v1::ListFramesRequest* request,
                                 v1::ListFramesReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, frames_->List(*request, reply));
    return reactor;
  }
  ServerUnaryReactor* GetFrame(CallbackServerContext* context, const v1::GetFrameRequest* request,
                               v1::StoredFrame* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, frames_->Get(*request, reply));
    return reactor;
  }
  ServerUnaryReactor* ListJobs(CallbackServerContext* context, const v1::ListJobsRequest*,
                               v1::ListJobsReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    service_->processes()->List(reply);
    End(reactor, absl::OkStatus());
    return reactor;
  }
  ServerUnaryReactor* GetJob(CallbackServerContext* context, const v1::GetJobRequest* request,
                             v1::JobDetail* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, service_->processes()->Get(*request, reply));
    return reactor;
  }
  ServerUnaryReactor* OpenPage(CallbackServerContext* context, const v1::OpenPageRequest* request,
                               v1::OpenPageReply* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    auto url = page_->Open(request->address());
    if (url.ok()) reply->set_url(*std::move(url));
    End(reactor, url.status());
    return reactor;
  }
  ServerUnaryReactor* PutSpans(CallbackServerContext* context, const grpc::ByteBuffer* request,
                               grpc::ByteBuffer* answer) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(PutSpans(*request, answer)));
    return reactor;
  }
  ServerUnaryReactor* GetTraces(CallbackServerContext* context, const v1::GetTracesRequest* request,
                                v1::Traces* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, service_->GetTraces(*request, reply));
    return reactor;
  }
  ServerUnaryReactor* PutProfile(CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* answer) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(PutProfile(*request, answer)));
    return reactor;
  }
  ServerUnaryReactor* GetProfiles(CallbackServerContext* context,
                                  const v1::GetProfilesRequest* request,
                                  v1::Profiles* reply) override {
    ServerUnaryReactor* reactor = Begin(context);
    End(reactor, service_->GetProfiles(*request, reply));
    return reactor;
  }

 private:
  // A message of no more than so many bytes; a longer one is not even parsed.
  static absl::Status Parse(const grpc::ByteBuffer& request, size_t most,
                            google::protobuf::Message* message) {
    if (request.Length() > most) {
      return absl::ResourceExhaustedError(absl::StrCat("a ", message->GetDescriptor()->name(),
                                                       " of ", request.Length(), " bytes; at most ",
                                                       most));
    }
    grpc::ByteBuffer copy = request;  // of references to its pieces
    if (message->ParseFromString(TakeBytes(copy))) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the request is not a ", message->GetDescriptor()->name()));
  }

  absl::Status PutProfile(const grpc::ByteBuffer& request, grpc::ByteBuffer* answer) {
    const RequestMemory::Share share = service_->request_memory().Take(request.Length());
    absl::MutexLock lock(&profiles_);
    v1::PutProfileRequest profile;
    TENSORD_RETURN_IF_ERROR(Parse(request, kMostProfileBytes, &profile));
    v1::PutProfileReply reply;
    TENSORD_ASSIGN_OR_RETURN(const uint64_t id, service_->PutProfile(std::move(profile)));
    reply.set_id(id);
    *answer = ToBuffer(reply);
    return absl::OkStatus();
  }

  absl::Status PutSpans(const grpc::ByteBuffer& request, grpc::ByteBuffer* answer) {
    v1::PutSpansRequest spans;
    TENSORD_RETURN_IF_ERROR(Parse(request, kMostPutBytes, &spans));
    TENSORD_ASSIGN_OR_RETURN(const uint32_t kept, service_->PutSpans(spans));
    v1::PutSpansReply reply;
    reply.set_kept(kept);
    *answer = ToBuffer(reply);
    return absl::OkStatus();
  }

  ServerUnaryReactor* Begin(CallbackServerContext* context) {
    counts_->Called();
    return context->DefaultReactor();
  }
  void End(ServerUnaryReactor* reactor, const absl::Status& status) {
    counts_->Called();
    reactor->Finish(ToGrpc(status));
  }

  CompileService* const service_;
  FrameService* const frames_;
  Page* const page_;
  CallCounts* const counts_;
  absl::Mutex profiles_;  // held while one is parsed, which takes many times its bytes, and kept
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRpcService(CompileService* service, FrameService* frames,
                                              Page* page, CallCounts* counts) {
  return std::make_unique<RpcService>(service, frames, page, counts);
}

std::string TakeBytes(grpc::ByteBuffer& buffer) {
  std::string bytes;
  bytes.reserve(buffer.Length());
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) slices.clear();
  buffer.Clear();
  for (grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    slice = grpc::Slice();
  }
  return bytes;
}

grpc::ByteBuffer ToBuffer(const google::protobuf::Message& reply) {
  grpc::ByteBuffer buffer;
  bool own = false;
  const grpc::Status written =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(reply, &buffer, &own);
  TENSORD_CHECK(written.ok());
  return buffer;
}

}  // namespace tensord::server
