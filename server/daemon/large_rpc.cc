// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/large_rpc.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <grpcpp/alarm.h>

#include <atomic>
#include <string>
#include <utility>

#include "server/daemon/status_codes.h"
#include "server/traces/span_log.h"

namespace tensord::server {
namespace {

constexpr char kMethod[] = "/tensord.v1.Compiler/CompileLarge";
constexpr char kBytes[] = "tensord-request-bytes";

// What a request may have that does not say how long it is.
constexpr uint64_t kUnsaid = 32 << 20;

uint64_t SaidBytes(const grpc::GenericCallbackServerContext& context) {
  const auto found = context.client_metadata().find(kBytes);
  uint64_t bytes = 0;
  if (found == context.client_metadata().end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &bytes)) {
    return kUnsaid;
  }
  return bytes;
}

}  // namespace

// Waits for room, reads, compiles, answers. Lives until gRPC and the alarm are done with it.
class LargeRpc::Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(LargeRpc* rpc, grpc::GenericCallbackServerContext* context) : rpc_(rpc), context_(context) {
    ++rpc_->counts_->open;
    rpc_->counts_->Called();
    // Twice, since what came in pieces is made one.
    said_ = SaidBytes(*context);
    if (said_ > kMaxRequestBytes) {
      Finish({grpc::StatusCode::RESOURCE_EXHAUSTED,
              absl::StrCat("a request of ", said_, " bytes is too large; at most ",
                           kMaxRequestBytes, " are taken")});
      return;
    }
    const uint64_t room = 2 * said_;
    if (room > RequestMemory::kSmall) {
      ++users_;
      alarm_.Set(absl::ToChronoTime(absl::Now() + rpc_->limit_), [this](bool rang) {
        if (rang) GiveUp();
        Leave();
      });
    }
    ticket_ = rpc_->service_->request_memory().Ask(
        room, [this](absl::StatusOr<RequestMemory::Share> share) { Read(std::move(share)); });
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
    }
    if (!ok) return Finish({grpc::StatusCode::CANCELLED, "the request did not come"});
    if (buffer_.Length() > said_) {
      return Finish({grpc::StatusCode::INVALID_ARGUMENT,
                     absl::StrCat("the request has ", buffer_.Length(), " bytes, more than the ",
                                  said_, " that its header ", kBytes, " announces")});
    }
    std::string bytes = TakeBytes(buffer_);
    share_.Resize(bytes.size());
    rpc_->service_->Compile(
        std::move(bytes), std::move(share_), &reply_,
        [this](const absl::Status& status) { Answer(status); }, came_);
  }

  void OnCancel() override {
    rpc_->service_->request_memory().Cancel(ticket_, absl::CancelledError("the client has gone"));
  }

  void OnDone() override {
    rpc_->counts_->Called();
    --rpc_->counts_->open;
    alarm_.Cancel();
    Leave();
  }

 private:
  void Read(absl::StatusOr<RequestMemory::Share> share) {
    if (!share.ok()) return Finish(ToGrpc(share.status()));
    share_ = *std::move(share);
    bool late;
    {
      absl::MutexLock lock(&mutex_);
      late = late_;
      reading_ = !late;
    }
    if (late) return Finish(ToGrpc(Late()));
    StartRead(&buffer_);
  }

  void GiveUp() {
    {
      absl::MutexLock lock(&mutex_);
      late_ = true;
      if (reading_) context_->TryCancel();
    }
    rpc_->service_->request_memory().Cancel(ticket_, Late());
  }

  absl::Status Late() const {
    return absl::ResourceExhaustedError(absl::StrCat("there was no memory for the request within ",
                                                     absl::FormatDuration(rpc_->limit_),
                                                     " (queue_seconds, request_memory)"));
  }

  void Answer(const absl::Status& status) {
    if (!status.ok()) return Finish(ToGrpc(status));
    buffer_ = ToBuffer(reply_);
    StartWriteAndFinish(&buffer_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void Leave() {
    if (--users_ == 0) delete this;
  }

  LargeRpc* const rpc_;
  grpc::GenericCallbackServerContext* const context_;  // until OnDone
  const uint64_t came_ = MonotonicNanoseconds();
  std::atomic<int> users_{1};
  grpc::Alarm alarm_;
  uint64_t said_ = 0;  // no more than so many bytes are taken
  std::atomic<RequestMemory::Ticket> ticket_{0};
  RequestMemory::Share share_;
  grpc::ByteBuffer buffer_;  // the request, then the reply
  v1::CompileReply reply_;
  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool late_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerGenericBidiReactor* LargeRpc::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() == kMethod) return new Call(this, context);
  return CallbackGenericService::CreateReactor(context);  // there is no such method
}

}  // namespace tensord::server
