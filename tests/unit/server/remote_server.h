// SPDX-License-Identifier: Apache-2.0
// A cache of the Remote Execution API in the test's process, strict about what it is sent, which
// misbehaves as it is told.
#ifndef TENSORD_TESTS_UNIT_SERVER_REMOTE_SERVER_H_
#define TENSORD_TESTS_UNIT_SERVER_REMOTE_SERVER_H_

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/fleet/remote/blobs.h"
#include "server/fleet/remote/session.h"

namespace tensord::fleet {

class RemoteServer : reapi::Capabilities::Service,
                     reapi::ActionCache::Service,
                     reapi::ContentAddressableStorage::Service,
                     google::bytestream::ByteStream::Service {
  using Context = grpc::ServerContext;
  template <typename T>
  using Reply = grpc::ServerWriter<T>;

 public:
  RemoteServer() {
    auto& cache = *capabilities.mutable_cache_capabilities();
    cache.add_digest_functions(reapi::DigestFunction::SHA256);
    cache.mutable_action_cache_update_capabilities()->set_update_enabled(true);
    cache.set_max_batch_total_size_bytes(8 << 10);
    capabilities.mutable_low_api_version()->set_major(2);
    capabilities.mutable_high_api_version()->set_major(2);
    Start();
  }
  ~RemoteServer() { Stop(); }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                             &port);
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{
             static_cast<reapi::Capabilities::Service*>(this),
             static_cast<reapi::ActionCache::Service*>(this),
             static_cast<reapi::ContentAddressableStorage::Service*>(this),
             static_cast<google::bytestream::ByteStream::Service*>(this)}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  // How often a method was called.
  int Calls(const std::string& method) {
    absl::MutexLock lock(&mutex);
    return calls_[method];
  }

  // What it has, by hash.
  absl::Mutex mutex;
  std::map<std::string, std::string> blobs;
  std::map<std::string, reapi::ActionResult> results;  // by the action's

  // How it behaves; set before it is asked.
  reapi::ServerCapabilities capabilities;
  std::string instance;
  bool inlines = false;  // values of results
  std::function<grpc::Status(const std::string& method, const Context&)> before;
  std::function<void(reapi::BatchReadBlobsResponse*)> change_read;
  std::function<void(reapi::BatchUpdateBlobsResponse*)> change_written;
  std::function<void(reapi::ActionResult*)> change_result;
  std::function<grpc::Status(Reply<google::bytestream::ReadResponse>*)> read_stream;
  int64_t committed = 0;  // what it says of a written stream, where it is not 0
  int port = 0;

 private:
  grpc::Status Begin(const std::string& method, const Context& context,
                     const std::string& of_instance) {
    {
      absl::MutexLock lock(&mutex);
      ++calls_[method];
    }
    if (of_instance != instance) {
      return grpc::Status(grpc::INVALID_ARGUMENT, "no such instance: " + of_instance);
    }
    return before ? before(method, context) : grpc::Status::OK;
  }
  // Of the largest batch and of its blobs.
  bool TooLarge(uint64_t bytes) const {
    return bytes >
           static_cast<uint64_t>(capabilities.cache_capabilities().max_batch_total_size_bytes());
  }
  grpc::Status Store(const reapi::Digest& digest, const std::string& bytes) {
    const reapi::Digest real = DigestOf(bytes);
    if (real.hash() != digest.hash() || real.size_bytes() != digest.size_bytes()) {
      return grpc::Status(grpc::INVALID_ARGUMENT, "that is not its digest");
    }
    absl::MutexLock lock(&mutex);
    blobs[digest.hash()] = bytes;
    return grpc::Status::OK;
  }
  const std::string* Find(const std::string& hash) ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    const auto found = blobs.find(hash);
    return found == blobs.end() ? nullptr : &found->second;
  }

  grpc::Status GetCapabilities(Context* context, const reapi::GetCapabilitiesRequest* request,
                               reapi::ServerCapabilities* reply) override {
    const grpc::Status status = Begin("GetCapabilities", *context, request->instance_name());
    *reply = capabilities;
    return status;
  }

  grpc::Status GetActionResult(Context* context, const reapi::GetActionResultRequest* request,
                               reapi::ActionResult* reply) override {
    const grpc::Status status = Begin("GetActionResult", *context, request->instance_name());
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex);
    const auto found = results.find(request->action_digest().hash());
    if (found == results.end()) return grpc::Status(grpc::NOT_FOUND, "none");
    *reply = found->second;
    const std::string* value = Find(reply->stdout_digest().hash());
    if (value != nullptr && inlines && request->inline_stdout()) reply->set_stdout_raw(*value);
    if (change_result) change_result(reply);
    return status;
  }

  grpc::Status UpdateActionResult(Context* context, const reapi::UpdateActionResultRequest* request,
                                  reapi::ActionResult* reply) override {
    const grpc::Status status = Begin("UpdateActionResult", *context, request->instance_name());
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex);
    if (request->action_result().has_stdout_digest()) {  // not of leases
      reapi::Action action;
      const std::string* bytes = Find(request->action_digest().hash());
      EXPECT_TRUE(bytes != nullptr && action.ParseFromString(*bytes)) << "the action comes first";
      EXPECT_NE(Find(action.command_digest().hash()), nullptr) << "so does its command";
    }
    for (const reapi::OutputFile& file : request->action_result().output_files()) {
      EXPECT_NE(Find(file.digest().hash()), nullptr) << "so does " << file.path();
    }
    *reply = results[request->action_digest().hash()] = request->action_result();
    return status;
  }

  grpc::Status FindMissingBlobs(Context* context, const reapi::FindMissingBlobsRequest* request,
                                reapi::FindMissingBlobsResponse* reply) override {
    const grpc::Status status = Begin("FindMissingBlobs", *context, request->instance_name());
    absl::MutexLock lock(&mutex);
    for (const reapi::Digest& digest : request->blob_digests()) {
      if (Find(digest.hash()) == nullptr) *reply->add_missing_blob_digests() = digest;
    }
    return status;
  }

  grpc::Status BatchUpdateBlobs(Context* context, const reapi::BatchUpdateBlobsRequest* request,
                                reapi::BatchUpdateBlobsResponse* reply) override {
    const grpc::Status status = Begin("BatchUpdateBlobs", *context, request->instance_name());
    if (!status.ok()) return status;
    EXPECT_FALSE(TooLarge(request->ByteSizeLong()));
    for (const auto& one : request->requests()) {
      auto* const response = reply->add_responses();
      *response->mutable_digest() = one.digest();
      const grpc::Status stored = Store(one.digest(), one.data());
      response->mutable_status()->set_code(stored.error_code());
      response->mutable_status()->set_message(stored.error_message());
    }
    if (change_written) change_written(reply);
    return status;
  }

  grpc::Status BatchReadBlobs(Context* context, const reapi::BatchReadBlobsRequest* request,
                              reapi::BatchReadBlobsResponse* reply) override {
    const grpc::Status status = Begin("BatchReadBlobs", *context, request->instance_name());
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex);
    // From behind, for the order of answers is the server's.
    for (int i = request->digests_size() - 1; i >= 0; --i) {
      auto* const response = reply->add_responses();
      *response->mutable_digest() = request->digests(i);
      const std::string* bytes = Find(request->digests(i).hash());
      if (bytes != nullptr) response->set_data(*bytes);
      if (bytes == nullptr) response->mutable_status()->set_code(grpc::NOT_FOUND);
    }
    EXPECT_FALSE(TooLarge(reply->ByteSizeLong()));
    if (change_read) change_read(reply);
    return status;
  }

  // "instance/blobs/hash/size", behind what stands before "blobs".
  static reapi::Digest DigestIn(const std::string& resource, std::string* of_instance) {
    const std::vector<std::string> parts = absl::StrSplit(resource, '/');
    *of_instance = parts[0] == "blobs" || parts[0] == "uploads" ? "" : parts[0];
    reapi::Digest digest;
    EXPECT_GE(parts.size(), 3u) << resource;
    EXPECT_EQ(parts[parts.size() - 3], "blobs") << resource;
    digest.set_hash(parts[parts.size() - 2]);
    digest.set_size_bytes(std::stoll(parts.back()));
    return digest;
  }

  grpc::Status Read(Context* context, const google::bytestream::ReadRequest* request,
                    Reply<google::bytestream::ReadResponse>* reply) override {
    std::string of_instance;
    const reapi::Digest digest = DigestIn(request->resource_name(), &of_instance);
    const grpc::Status status = Begin("Read", *context, of_instance);
    if (!status.ok()) return status;
    if (read_stream) return read_stream(reply);
    std::string bytes;
    {
      absl::MutexLock lock(&mutex);
      const std::string* found = Find(digest.hash());
      if (found == nullptr) return grpc::Status(grpc::NOT_FOUND, "none");
      bytes = *found;
    }
    for (size_t at = 0; at < bytes.size(); at += 1000) {
      google::bytestream::ReadResponse part;
      part.set_data(bytes.substr(at, 1000));
      reply->Write(part);
    }
    return status;
  }

  grpc::Status Write(Context* context, grpc::ServerReader<google::bytestream::WriteRequest>* parts,
                     google::bytestream::WriteResponse* reply) override {
    google::bytestream::WriteRequest part;
    std::string name, bytes;
    bool finished = false;
    while (parts->Read(&part)) {
      if (name.empty()) name = part.resource_name();
      EXPECT_EQ(part.write_offset(), static_cast<int64_t>(bytes.size()));
      bytes += part.data();
      finished = part.finish_write();
    }
    EXPECT_TRUE(finished);
    std::string of_instance;
    const reapi::Digest digest = DigestIn(name, &of_instance);
    const grpc::Status status = Begin("Write", *context, of_instance);
    if (!status.ok()) return status;
    reply->set_committed_size(committed != 0 ? committed : static_cast<int64_t>(bytes.size()));
    return Store(digest, bytes);
  }

  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tensord::fleet

#endif  // TENSORD_TESTS_UNIT_SERVER_REMOTE_SERVER_H_
