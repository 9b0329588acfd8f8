// SPDX-License-Identifier: Apache-2.0
// One signed file per program: manifests/ab/<program key in hex>.
//
//   "TNSDMAN1" | payload size, detail size, blob count (8 bytes each, little-endian)
//   | HMAC of (key, header, blobs, payload) | HMAC of (key, detail) | blobs (32 bytes each)
//   | payload | detail
//
// The payload is what every look-up needs; the detail is for people, read only when they ask. Both
// are opaque. A file that was moved to another key's name, or signed with another store's key, does
// not verify. Not locked: store.h is the facade.
#ifndef TENSORD_SERVER_STORE_MANIFESTS_H_
#define TENSORD_SERVER_STORE_MANIFESTS_H_

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::store {

struct Manifest {
  std::vector<std::string> blobs;  // digests of 32 bytes
  std::string payload;
};

// HMAC-SHA256 with the store's own key, which is made on first use: `path`, mode 0600.
class Signer {
 public:
  // FailedPrecondition: the key file may be read by others, or is not a key.
  static absl::StatusOr<Signer> Open(const std::string& path, const std::string& temp_folder);
  std::string Sign(std::initializer_list<std::string_view> fields) const;

 private:
  explicit Signer(std::string key) : key_(std::move(key)) {}
  std::string key_;
};

class ManifestFolder {
 public:
  ManifestFolder(std::string folder, std::string temp_folder, Signer signer)
      : folder_(std::move(folder)),
        temp_folder_(std::move(temp_folder)),
        signer_(std::move(signer)) {}

  std::string PathOf(std::string_view key) const;

  // Returns the file's size in bytes.
  absl::StatusOr<uint64_t> Put(std::string_view key, const Manifest& manifest,
                               std::string_view detail) const;
  // NotFound: no such program. DataLoss: not what this store has signed. What was read is kept in
  // memory until the file changes.
  absl::StatusOr<std::shared_ptr<const Manifest>> Get(std::string_view key);
  absl::StatusOr<std::string> GetDetail(std::string_view key) const;
  void Remove(std::string_view key) const;

 private:
  struct Cached {
    std::string key;
    FileIdentity identity;
    std::shared_ptr<const Manifest> manifest;
  };
  void Forget(std::string_view key);

  std::string folder_;
  std::string temp_folder_;
  Signer signer_;
  std::list<Cached> recent_;  // most recent first
  std::unordered_map<std::string, std::list<Cached>::iterator> by_key_;
  size_t cached_bytes_ = 0;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_MANIFESTS_H_
