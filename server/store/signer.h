// SPDX-License-Identifier: Apache-2.0
// Signs what the store keeps: HMAC-SHA256 with the store's own key, a file of mode 0600 that is
// made on first use. Whoever cannot read the key cannot add or change a record. What was signed
// with a former key counts as long as that is listed in the file of old keys.
#ifndef TENSORD_SERVER_STORE_SIGNER_H_
#define TENSORD_SERVER_STORE_SIGNER_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::store {

// Eight bytes, little-endian: how lengths are written and signed.
void AppendU64(std::string& out, uint64_t value);

// Every function may be called from several threads.
class Signer {
 public:
  // `path` is the key's file; old keys lie in `path`.old, 32 bytes each, which need not exist.
  // FailedPrecondition: a file may be read by others, or holds no keys.
  static absl::StatusOr<std::unique_ptr<Signer>> Open(std::string path, std::string temp_folder);

  // Reads the keys again when a file has been replaced, and makes a key when it is gone. True when
  // they are others now: nothing that was verified before counts. An unusable file leaves the keys
  // as they were.
  bool Refresh();

  using Fields = std::initializer_list<std::string_view>;
  // With the key, of the fields and their lengths; 32 bytes.
  std::string Sign(Fields fields) const;
  // True when `mac` is what Sign() gives, or gave with a key that is listed as an old one.
  bool Verify(std::string_view mac, Fields fields) const;

  // Makes another key, and lists the one that `path` has as the newest of the old ones, of which
  // the newest eight stay. Those who rotate at the same moment do so one after the other.
  static absl::Status Rotate(const std::string& path, const std::string& temp_folder);

 private:
  Signer(std::string path, std::string temp_folder)
      : path_(std::move(path)), temp_folder_(std::move(temp_folder)) {}
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::string temp_folder_;
  mutable absl::Mutex mutex_;
  FileIdentity identity_ ABSL_GUARDED_BY(mutex_);
  FileIdentity old_identity_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> keys_ ABSL_GUARDED_BY(mutex_);  // the one that signs, then old ones
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_SIGNER_H_
