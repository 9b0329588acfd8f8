// SPDX-License-Identifier: Apache-2.0
// Files and private folders that remove themselves.
#ifndef TENSORD_COMPILER_JIT_FOLDER_H_
#define TENSORD_COMPILER_JIT_FOLDER_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace tensord::jit {

// A new folder `PARENT/tmp-PID-XXXXXX` (mode 0700), removed with its contents at the end.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make(const std::string& parent);
  TemporaryFolder(TemporaryFolder&& other) : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  // Renames it to `path`, which must not exist; after that it stays. False when `path` exists.
  absl::StatusOr<bool> Publish(const std::string& path);

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Whether the disk of a folder has room for what a compile writes.
bool HasRoom(const std::string& folder);

// Removes the temporary folders of processes that are no more (killed while they compiled).
void RemoveStaleFolders(const std::string& parent);

absl::Status MakeFolders(const std::string& path);  // mode 0700
absl::Status WriteFile(const std::string& path, std::string_view contents);
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_FOLDER_H_
