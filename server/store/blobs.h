// SPDX-License-Identifier: Apache-2.0
// Immutable files named after what they hold: blobs/ab/<sha256 in hex>, mode 0444.
//
// Not locked: store.h is the facade. Other processes may add and remove files at any time.
#ifndef TENSORD_SERVER_STORE_BLOBS_H_
#define TENSORD_SERVER_STORE_BLOBS_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"

namespace tensord::store {

// What tells one version of a file from another without reading it. The change time cannot be set
// by a program, so a file that was rewritten and given its old modification time is still noticed.
struct FileIdentity {
  uint64_t inode = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t size = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity IdentityOf(const struct stat& info);
// Of no file, or one that cannot be looked at, the identity of none.
FileIdentity IdentityAt(const std::string& path);

// Writes `data` to `path` so that a reader sees all of it or nothing, also after a power cut: a
// temporary file in `temp_folder` (same file system), fsync, rename, fsync of the folder.
absl::Status WriteFileAtomically(const std::string& path, std::string_view data, int mode,
                                 const std::string& temp_folder);
// Errors name `path`.
absl::Status WriteAll(int fd, std::string_view data, const std::string& path);
// NotFound when there is no such file. DataLoss: it is larger than anything that is stored.
absl::StatusOr<std::string> ReadFile(const std::string& path);
// Makes the names in the folder of `path` outlive a power cut.
absl::Status SyncFolderOf(const std::string& path);
// Creates the folder and its parents, mode 0700, so that they outlive a power cut.
absl::Status MakeFolder(const std::string& path);

// What the file takes of its file system, in bytes; 0 when there is none.
uint64_t BytesOnDisk(const std::string& path);
// The files of `folder`/ab/ whose names are digests in hex, in no order. False: not all of them,
// for the folder could not be read.
bool ForEachDigestFile(
    const std::string& folder,
    const std::function<void(const std::string& digest, const std::string& path)>& visit);

class BlobFolder {
 public:
  BlobFolder(std::string folder, std::string temp_folder)
      : folder_(std::move(folder)), temp_folder_(std::move(temp_folder)) {}

  const std::string& folder() const { return folder_; }
  std::string PathOf(std::string_view sha256) const;

  // Writes `data`, whose digest is `sha256`, over whatever is there.
  absl::Status Put(std::string_view sha256, std::string_view data) const;

  // The file's size when it is there and its content has the digest. NotFound: no file. DataLoss:
  // other content. Any other error is the machine's, and says nothing of the blob. The verdict is
  // kept until the file changes.
  absl::StatusOr<uint64_t> Verify(std::string_view sha256);

  // Forgets all verdicts.
  void ForgetAll() { sound_.clear(); }

  bool Exists(std::string_view sha256) const;
  // Deletes the file; a verdict about it lapses by itself.
  void Remove(std::string_view sha256) const;

 private:
  std::string folder_;
  std::string temp_folder_;
  std::unordered_map<std::string, FileIdentity> sound_;  // by digest
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_BLOBS_H_
