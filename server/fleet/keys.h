// SPDX-License-Identifier: Apache-2.0
// The keys of a fleet (Ed25519): a host that may write has a private one, and every host a list of
// the public ones whose signatures it accepts. Both are files, read again when they change, so that
// keys are rotated without a restart.
//
//   private  PEM, as `openssl genpkey -algorithm ed25519` writes it; closed to others
//   trust    a line a key: NAME and 64 hex digits; # begins a comment
#ifndef TENSORD_SERVER_FLEET_KEYS_H_
#define TENSORD_SERVER_FLEET_KEYS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::fleet {

inline constexpr size_t kKeyIdBytes = 8;
inline constexpr size_t kSignatureBytes = 64;

// Every function may be called from several threads.
class Keys {
 public:
  // Either path may be empty: without `sign_path` nothing is signed, without `trust_path` only what
  // this key signed is accepted. FailedPrecondition names the file at fault and says what to do.
  static absl::StatusOr<std::unique_ptr<Keys>> Open(std::string sign_path, std::string trust_path);

  bool CanSign() const { return !sign_path_.empty(); }
  // The key's id and its signature of `message`. Looks at the files first.
  std::string Sign(std::string_view message);
  // The name of the accepted key that made `signature` (Sign) of `message`. PermissionDenied: it is
  // none that is accepted, or the signature is wrong.
  absl::StatusOr<std::string> Verify(std::string_view message, std::string_view signature);
  // Why a file that changed is not in use; what was read before is. Empty: all is well.
  std::string Problem();

  // Writes a private key to `path`, which must not exist, with mode 0600. Returns the line for
  // files of trust.
  static absl::StatusOr<std::string> Make(const std::string& path, const std::string& name);

 private:
  struct Public {
    std::string name, key;  // 32 bytes
  };
  struct Private;

  Keys(std::string sign_path, std::string trust_path);
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadTrust() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadSigner() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string sign_path_;
  const std::string trust_path_;
  absl::Mutex mutex_;
  store::FileIdentity sign_identity_ ABSL_GUARDED_BY(mutex_);
  store::FileIdentity trust_identity_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Private> private_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Public> trusted_ ABSL_GUARDED_BY(mutex_);  // by id
  std::string problem_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_KEYS_H_
