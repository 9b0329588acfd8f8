// SPDX-License-Identifier: Apache-2.0
// A file of tokens that let clients in, one a line. It is read again when it changes: with the new
// token above the old one for a while, neither daemon nor jobs have to start anew.
#ifndef TENSORD_SERVER_DAEMON_TOKEN_FILE_H_
#define TENSORD_SERVER_DAEMON_TOKEN_FILE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"

namespace tensord::server {

// Every function may be called from several threads.
class TokenFile {
 public:
  // Shorter ones could be guessed.
  static constexpr size_t kLeastLength = 32;

  // NotFound, FailedPrecondition: the file cannot be read, is open to others, or has no token.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(std::string path);

  // Whether the header `authorization` brings one of the tokens: "Bearer TOKEN". Unauthenticated:
  // it does not. FailedPrecondition: what lies there now lets nobody in, for reasons as above.
  absl::Status Check(std::string_view authorization);

 private:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex mutex_;
  store::FileIdentity identity_ ABSL_GUARDED_BY(mutex_);
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_TOKEN_FILE_H_
