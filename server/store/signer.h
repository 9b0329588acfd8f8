// SPDX-License-Identifier: Apache-2.0
// Signs what the store keeps: HMAC-SHA256 with the store's own key, a file of mode 0600 that is
// made on first use. Whoever cannot read the key cannot add or change a record.
#ifndef TENSORD_SERVER_STORE_SIGNER_H_
#define TENSORD_SERVER_STORE_SIGNER_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::store {

// Not locked: store.h is the facade.
class Signer {
 public:
  // FailedPrecondition: the key file may be read by others, or is not a key.
  static absl::StatusOr<Signer> Open(std::string path, std::string temp_folder);

  // Reads the key again when its file has been replaced, and makes one when it is gone. True when
  // the key is another one now: nothing that was verified before counts. An unusable file leaves
  // the key as it was.
  bool Refresh();

  // Of the fields and their lengths; 32 bytes.
  std::string Sign(std::initializer_list<std::string_view> fields) const;

 private:
  Signer(std::string path, std::string temp_folder)
      : path_(std::move(path)), temp_folder_(std::move(temp_folder)) {}
  absl::Status Load();

  std::string path_;
  std::string temp_folder_;
  FileIdentity identity_;
  std::string key_;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_SIGNER_H_
