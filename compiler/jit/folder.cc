// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/folder.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/process.h"

namespace tensord::jit {

namespace fs = std::filesystem;

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(const std::string& parent) {
  TENSORD_RETURN_IF_ERROR(MakeFolders(parent));
  std::string path = absl::StrCat(parent, "/tmp-", getpid(), "-XXXXXX");
  if (!mkdtemp(path.data()))
    return absl::InternalError(
        absl::StrCat("cannot make a folder in ", parent, ": ", strerror(errno)));
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

absl::StatusOr<bool> TemporaryFolder::Publish(const std::string& path) {
  if (rename(path_.c_str(), path.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return false;
    return absl::InternalError(
        absl::StrCat("cannot rename ", path_, " to ", path, ": ", strerror(errno)));
  }
  path_.clear();
  return true;
}

bool HasRoom(const std::string& folder) {
  // A prelude with its precompiled header, and the compiler's temporary files.
  constexpr uint64_t kBytes = 24 << 20;
  constexpr uint64_t kFiles = 64;
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) return false;
  const bool has_files = disk.f_files == 0 || disk.f_favail >= kFiles;  // 0: not counted there
  return has_files && disk.f_bavail * disk.f_frsize >= kBytes;
}

void RemoveStaleFolders(const std::string& parent) { RemoveFoldersOfTheDead(parent, "tmp-"); }

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  fs::create_directories(path, error);
  if (error)
    return absl::InternalError(
        absl::StrCat("cannot make the folder ", path, ": ", error.message()));
  fs::permissions(path, fs::perms::owner_all, error);
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, std::string_view contents) {
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), std::streamsize(contents.size()));
  file.close();
  if (!file) return absl::InternalError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // No stream: of an error while it reads, one tells no more than of an empty file.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const absl::Cleanup close_it = [fd] {
    if (fd >= 0) close(fd);
  };
  std::string contents;
  char buffer[1 << 16];
  while (fd >= 0) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got == 0) return contents;
    if (got > 0) contents.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  return absl::InternalError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
}

}  // namespace tensord::jit
