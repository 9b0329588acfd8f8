// SPDX-License-Identifier: Apache-2.0
// Signs what the store keeps: HMAC-SHA256 with the store's own key, a file of mode 0600 that is
// made on first use. Whoever cannot read the key cannot add or change a record.
#ifndef TENSORD_SERVER_STORE_SIGNER_H_
#define TENSORD_SERVER_STORE_SIGNER_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::store {

// Eight bytes, little-endian: how lengths are written and signed.
void AppendU64(std::string& out, uint64_t value);

// Every function may be called from several threads.
class Signer {
 public:
  // FailedPrecondition: the key file may be read by others, or is not a key.
  static absl::StatusOr<std::unique_ptr<Signer>> Open(std::string path, std::string temp_folder);

  // Reads the key again when its file has been replaced, and makes one when it is gone. True when
  // the key is another one now: nothing that was verified before counts. An unusable file leaves
  // the key as it was.
  bool Refresh();

  // Of the fields and their lengths; 32 bytes.
  std::string Sign(std::initializer_list<std::string_view> fields) const;

 private:
  Signer(std::string path, std::string temp_folder)
      : path_(std::move(path)), temp_folder_(std::move(temp_folder)) {}
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::string temp_folder_;
  mutable absl::Mutex mutex_;
  FileIdentity identity_ ABSL_GUARDED_BY(mutex_);
  std::string key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_SIGNER_H_
