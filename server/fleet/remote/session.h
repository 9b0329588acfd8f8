// SPDX-License-Identifier: Apache-2.0
// A connection to a server of the Remote Execution API whose capabilities fit.
#ifndef TENSORD_SERVER_FLEET_REMOTE_SESSION_H_
#define TENSORD_SERVER_FLEET_REMOTE_SESSION_H_

#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "build/bazel/remote/execution/v2/remote_execution.grpc.pb.h"
#include "google/bytestream/bytestream.grpc.pb.h"

namespace tensord::fleet {

namespace reapi = build::bazel::remote::execution::v2;

struct RemoteOptions {
  std::string host, port;
  bool tls = false;           // 1.2 or newer; the server's certificate is for `host`
  std::string ca;             // file of the authorities that count; empty: the system's
  std::string instance;       // the server's name for a cache among several; often empty
  std::string user;           // empty: the password is a token
  std::string password;       // empty: none
  std::string password_file;  // read at each connection; beats the password

  std::string ToString() const;  // the URL, without secrets
};

// grpc://host:port/instance, or grpcs:// with TLS; user:password@ or :token@ before the host.
// InvalidArgument says what is wrong.
absl::StatusOr<RemoteOptions> ParseRemoteUrl(const std::string& url);

// A tier's status (tier.h) for what a server answers: refusals are FailedPrecondition. Statuses
// that say something of one call (NOT_FOUND) are the caller's to look at before.
absl::Status TierStatus(int code, const std::string& message);
inline absl::Status TierStatus(const grpc::Status& status) {
  return TierStatus(status.error_code(), status.error_message());
}

// Every function may be called from several threads.
class RemoteSession {
 public:
  // Connects, and asks for the server's capabilities.
  static absl::StatusOr<std::shared_ptr<RemoteSession>> Open(const RemoteOptions& options,
                                                             absl::Time deadline);

  // Of one call, which is who we are by it.
  std::unique_ptr<grpc::ClientContext> Context(absl::Time deadline) const;

  const std::string& instance() const { return instance_; }
  bool takes_results() const { return takes_results_; }
  uint64_t most_batch() const { return most_batch_; }  // bytes of one batch, with its digests

  reapi::ActionCache::Stub& results() const { return *results_; }
  reapi::ContentAddressableStorage::Stub& blobs() const { return *blobs_; }
  google::bytestream::ByteStream::Stub& streams() const { return *streams_; }

 private:
  RemoteSession(std::shared_ptr<grpc::Channel> channel, std::string instance,
                std::string authorization);
  absl::Status Greet(absl::Time deadline);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string instance_;
  const std::string authorization_;  // a header's value; empty: none
  const std::unique_ptr<reapi::ActionCache::Stub> results_;
  const std::unique_ptr<reapi::ContentAddressableStorage::Stub> blobs_;
  const std::unique_ptr<google::bytestream::ByteStream::Stub> streams_;
  bool takes_results_ = false;
  uint64_t most_batch_ = 0;
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REMOTE_SESSION_H_
