// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/blobs.h"

#include <absl/strings/str_cat.h>
#include <openssl/rand.h>

#include <set>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"

namespace tensord::fleet {
namespace {

// Of a message of a stream; less than gRPC takes by default.
constexpr size_t kChunk = 1 << 20;
// What stands beside a blob in a batch: its digest, a status.
constexpr uint64_t kBesideBlob = 256;

// Where in a list each batch ends, and which are larger than any batch.
struct Batches {
  std::vector<std::vector<size_t>> batches;
  std::vector<size_t> streams;
};

// `blobs` have a digest each; of several with one hash, one.
template <typename Blobs, typename DigestOfOne>
Batches Batched(const Blobs& blobs, uint64_t most, DigestOfOne digest_of) {
  Batches all;
  std::set<std::string> seen;
  uint64_t batch = most;  // bytes of the last one; full before there is any
  for (size_t i = 0; i < blobs.size(); ++i) {
    const reapi::Digest& digest = digest_of(blobs[i]);
    if (digest.size_bytes() == 0 || !seen.insert(digest.hash()).second) continue;
    const uint64_t bytes = static_cast<uint64_t>(digest.size_bytes()) + kBesideBlob;
    if (bytes > most) {
      all.streams.push_back(i);
      continue;
    }
    if (batch + bytes > most) {
      all.batches.emplace_back();
      batch = 0;
    }
    batch += bytes;
    all.batches.back().push_back(i);
  }
  return all;
}

std::string Prefix(const RemoteSession& session) {
  return session.instance().empty() ? "" : session.instance() + "/";
}

std::string PathOfBlob(const reapi::Digest& digest) {
  return absl::StrCat("blobs/", digest.hash(), "/", digest.size_bytes());
}

// Random, of version 4.
std::string NewUuid() {
  unsigned char bytes[16];
  TENSORD_CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  const std::string hex = ToHex({reinterpret_cast<char*>(bytes), sizeof bytes});
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

void Keep(const reapi::Digest& digest, std::string bytes,
          std::map<std::string, std::string>* blobs) {
  const size_t most = static_cast<size_t>(digest.size_bytes()) + 1;
  if (bytes.size() > most) bytes.resize(most);
  (*blobs)[digest.hash()] = std::move(bytes);
}

absl::Status ReadBatch(const RemoteSession& session, const std::vector<reapi::Digest>& digests,
                       const std::vector<size_t>& batch, absl::Time deadline,
                       std::map<std::string, std::string>* blobs) {
  reapi::BatchReadBlobsRequest request;
  request.set_instance_name(session.instance());
  std::map<std::string, const reapi::Digest*> asked;
  for (const size_t i : batch) {
    *request.add_digests() = digests[i];
    asked[digests[i].hash()] = &digests[i];
  }
  reapi::BatchReadBlobsResponse reply;
  TENSORD_RETURN_IF_ERROR(
      TierStatus(session.blobs().BatchReadBlobs(session.Context(deadline).get(), request, &reply)));
  for (reapi::BatchReadBlobsResponse::Response& one : *reply.mutable_responses()) {
    const auto found = asked.find(one.digest().hash());
    if (found == asked.end()) continue;
    const reapi::Digest& digest = *found->second;
    asked.erase(found);
    if (one.status().code() == grpc::NOT_FOUND) continue;
    TENSORD_RETURN_IF_ERROR(TierStatus(one.status().code(), one.status().message()));
    Keep(digest, std::move(*one.mutable_data()), blobs);
  }
  if (asked.empty()) return absl::OkStatus();
  return absl::UnavailableError("the server did not answer for all blobs");
}

absl::Status ReadStream(const RemoteSession& session, const reapi::Digest& digest,
                        absl::Time deadline, std::map<std::string, std::string>* blobs) {
  google::bytestream::ReadRequest request;
  request.set_resource_name(Prefix(session) + PathOfBlob(digest));
  const auto context = session.Context(deadline);
  const auto reader = session.streams().Read(context.get(), request);
  const size_t size = static_cast<size_t>(digest.size_bytes());
  std::string bytes;
  google::bytestream::ReadResponse part;
  while (bytes.size() <= size && reader->Read(&part)) bytes += part.data();
  if (bytes.size() > size) {  // not what was asked for, which whoever asked sees
    context->TryCancel();
    reader->Finish();
    Keep(digest, std::move(bytes), blobs);
    return absl::OkStatus();
  }
  const grpc::Status status = reader->Finish();
  if (status.error_code() == grpc::NOT_FOUND) return absl::OkStatus();
  TENSORD_RETURN_IF_ERROR(TierStatus(status));
  Keep(digest, std::move(bytes), blobs);
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> Missing(const RemoteSession& session,
                                              const std::vector<RemoteBlob>& blobs,
                                              absl::Time deadline) {
  reapi::FindMissingBlobsRequest request;
  request.set_instance_name(session.instance());
  for (const RemoteBlob& blob : blobs) *request.add_blob_digests() = blob.digest;
  reapi::FindMissingBlobsResponse reply;
  TENSORD_RETURN_IF_ERROR(TierStatus(
      session.blobs().FindMissingBlobs(session.Context(deadline).get(), request, &reply)));
  std::set<std::string> missing;
  for (const reapi::Digest& digest : reply.missing_blob_digests()) missing.insert(digest.hash());
  return missing;
}

absl::Status WriteBatch(const RemoteSession& session, const std::vector<RemoteBlob>& blobs,
                        const std::vector<size_t>& batch, absl::Time deadline) {
  reapi::BatchUpdateBlobsRequest request;
  request.set_instance_name(session.instance());
  std::set<std::string> asked;
  for (const size_t i : batch) {
    auto* const one = request.add_requests();
    *one->mutable_digest() = blobs[i].digest;
    one->set_data(blobs[i].bytes.data(), blobs[i].bytes.size());
    asked.insert(blobs[i].digest.hash());
  }
  reapi::BatchUpdateBlobsResponse reply;
  TENSORD_RETURN_IF_ERROR(TierStatus(
      session.blobs().BatchUpdateBlobs(session.Context(deadline).get(), request, &reply)));
  for (const reapi::BatchUpdateBlobsResponse::Response& one : reply.responses()) {
    TENSORD_RETURN_IF_ERROR(TierStatus(one.status().code(), one.status().message()));
    asked.erase(one.digest().hash());
  }
  if (asked.empty()) return absl::OkStatus();
  return absl::UnavailableError("the server did not take all blobs");
}

absl::Status WriteStream(const RemoteSession& session, const RemoteBlob& blob,
                         absl::Time deadline) {
  google::bytestream::WriteResponse reply;
  const auto context = session.Context(deadline);
  const auto writer = session.streams().Write(context.get(), &reply);
  google::bytestream::WriteRequest part;
  part.set_resource_name(
      absl::StrCat(Prefix(session), "uploads/", NewUuid(), "/", PathOfBlob(blob.digest)));
  for (size_t at = 0; at < blob.bytes.size(); at += kChunk) {
    const std::string_view bytes = blob.bytes.substr(at, kChunk);
    part.set_write_offset(static_cast<int64_t>(at));
    part.set_data(bytes.data(), bytes.size());
    part.set_finish_write(at + bytes.size() == blob.bytes.size());
    // One that has the blob already answers before it is through.
    if (!writer->Write(part)) break;
    part.clear_resource_name();
  }
  writer->WritesDone();
  TENSORD_RETURN_IF_ERROR(TierStatus(writer->Finish()));
  if (reply.committed_size() == blob.digest.size_bytes()) return absl::OkStatus();
  return absl::UnavailableError("the server did not take all of a blob");
}

}  // namespace

reapi::Digest DigestOf(std::string_view bytes) {
  reapi::Digest digest;
  digest.set_hash(ToHex(Sha256(bytes)));
  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
  return digest;
}

absl::StatusOr<std::map<std::string, std::string>> ReadBlobs(
    const RemoteSession& session, const std::vector<reapi::Digest>& digests, absl::Time deadline) {
  std::map<std::string, std::string> blobs;
  const Batches all = Batched(digests, session.most_batch(),
                              [](const reapi::Digest& digest) -> auto& { return digest; });
  for (const std::vector<size_t>& batch : all.batches) {
    TENSORD_RETURN_IF_ERROR(ReadBatch(session, digests, batch, deadline, &blobs));
  }
  for (const size_t i : all.streams) {
    TENSORD_RETURN_IF_ERROR(ReadStream(session, digests[i], deadline, &blobs));
  }
  return blobs;
}

absl::Status WriteBlobs(const RemoteSession& session, const std::vector<RemoteBlob>& blobs,
                        absl::Time deadline) {
  const Batches all = Batched(blobs, session.most_batch(),
                              [](const RemoteBlob& blob) -> auto& { return blob.digest; });
  for (const std::vector<size_t>& batch : all.batches) {
    TENSORD_RETURN_IF_ERROR(WriteBatch(session, blobs, batch, deadline));
  }
  for (const size_t i : all.streams) {
    TENSORD_RETURN_IF_ERROR(WriteStream(session, blobs[i], deadline));
  }
  return absl::OkStatus();
}

absl::Status WriteMissingBlobs(const RemoteSession& session, const std::vector<RemoteBlob>& blobs,
                               absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(const std::set<std::string> missing, Missing(session, blobs, deadline));
  std::vector<RemoteBlob> wanted;
  for (const RemoteBlob& blob : blobs) {
    if (missing.count(blob.digest.hash()) != 0) wanted.push_back(blob);
  }
  return WriteBlobs(session, wanted, deadline);
}

}  // namespace tensord::fleet
