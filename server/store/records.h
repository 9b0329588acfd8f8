// SPDX-License-Identifier: Apache-2.0
// One signed file per program (manifests/ab/<program key>), per kernel (kernels/ab/<kernel key>)
// and per frame (frames/ab/<frame key>).
//
//   magic | sizes of payload, facts and detail, count of blobs (8 bytes each, little-endian)
//   | HMAC of (kind, key, all else) | blobs (32 bytes each) | payload | facts | detail
//
// The payload is what every look-up needs, the facts are for lists; the detail is for people, read
// only when they ask. All are opaque. A file that was moved to another key's name or another kind's
// folder, or signed with another store's key, does not verify. Not locked: store.h is the facade.
#ifndef TENSORD_SERVER_STORE_RECORDS_H_
#define TENSORD_SERVER_STORE_RECORDS_H_

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"
#include "server/store/signer.h"

namespace tensord::store {

// Of a record or a blob: it is not there, or not what it was; anything else is the machine's
// trouble.
inline bool IsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// Of a file's header and last block, at most.
inline constexpr uint64_t kFileOverhead = 8192;

struct Record {
  std::vector<std::string> blobs;  // digests of 32 bytes
  std::string payload;
  std::string facts;
};

// The bytes of a record's file.
std::string EncodeRecord(const Signer& signer, std::string_view kind, std::string_view key,
                         const Record& record, std::string_view detail);

class RecordFolder {
 public:
  // `kind` is part of what is signed. The signer outlives the folder.
  RecordFolder(std::string kind, std::string folder, std::string temp_folder, const Signer* signer)
      : kind_(std::move(kind)),
        folder_(std::move(folder)),
        temp_folder_(std::move(temp_folder)),
        signer_(signer) {}

  std::string PathOf(std::string_view key) const;

  absl::Status Put(std::string_view key, const Record& record, std::string_view detail) const;
  // NotFound: no such record, or one in the form of an older daemon. DataLoss: not what this store
  // has signed. Unimplemented: in the form of a newer daemon, which this one neither serves nor
  // removes. Any other error is the machine's, and says nothing of the record. What was read is
  // kept in memory until the file changes.
  absl::StatusOr<std::shared_ptr<const Record>> Get(std::string_view key);
  // The same, which remembers nothing.
  absl::StatusOr<Record> Read(std::string_view key) const;
  absl::StatusOr<std::string> GetDetail(std::string_view key) const;
  void Remove(std::string_view key) const;
  // Forgets what was verified: the signing key is another one.
  void ForgetAll();

  // The keys of all files whose names are keys, in no order. False: not all could be listed.
  bool ForEachKey(const std::function<void(const std::string& key)>& visit) const;
  // The same in the order of keys, those that begin with the same byte together. What cannot be
  // listed now is left out.
  void ForEachByte(const std::function<void(const std::vector<std::string>& keys)>& visit) const;

 private:
  struct Cached {
    std::string key;
    FileIdentity identity;
    std::shared_ptr<const Record> record;
  };
  void Keep(std::string_view key, const FileIdentity& identity,
            std::shared_ptr<const Record> record);
  void Forget(std::string_view key);

  std::string kind_;
  std::string folder_;
  std::string temp_folder_;
  const Signer* signer_;
  std::list<Cached> recent_;  // most recent first
  std::unordered_map<std::string, std::list<Cached>::iterator> by_key_;
  size_t cached_bytes_ = 0;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_RECORDS_H_
