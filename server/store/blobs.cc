// SPDX-License-Identifier: Apache-2.0
#include "server/store/blobs.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/sha256.h"

namespace tensord::store {
namespace {

// Verdicts are a few dozen bytes each; past this many the map starts again rather than grow.
constexpr size_t kMaxVerdicts = 65536;
constexpr off_t kMaxFileBytes = off_t{1} << 30;

absl::Status ErrnoStatus(const char* what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

}  // namespace

absl::Status WriteAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("cannot write", path);
    }
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("cannot open", folder);
  const int failed = fsync(fd);
  const absl::Status status = failed ? ErrnoStatus("cannot sync", folder) : absl::OkStatus();
  close(fd);
  return status;
}

namespace {

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

}  // namespace

FileIdentity IdentityOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_ino), Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim),
          static_cast<uint64_t>(info.st_size)};
}

FileIdentity IdentityAt(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? IdentityOf(info) : FileIdentity();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view data, int mode,
                                 const std::string& temp_folder) {
  // Daemons in several containers may share a store and a process id, so the name is random.
  std::string temp = absl::StrCat(temp_folder, "/", getpid(), ".XXXXXX");
  int fd = mkostemp(temp.data(), O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {  // somebody deleted the store under a running daemon
    TENSORD_RETURN_IF_ERROR(MakeFolder(temp_folder));
    temp.replace(temp.size() - 6, 6, "XXXXXX");
    fd = mkostemp(temp.data(), O_CLOEXEC);
  }
  if (fd < 0) return ErrnoStatus("cannot create", temp);
  absl::Cleanup remove = [&] { unlink(temp.c_str()); };
  {
    absl::Cleanup close_it = [fd] { close(fd); };
    TENSORD_RETURN_IF_ERROR(WriteAll(fd, data, temp));
    if (fchmod(fd, static_cast<mode_t>(mode)) != 0) return ErrnoStatus("cannot chmod", temp);
    if (fsync(fd) != 0) return ErrnoStatus("cannot sync", temp);
  }
  if (rename(temp.c_str(), path.c_str()) != 0) return ErrnoStatus("cannot rename to", path);
  std::move(remove).Cancel();
  return SyncFolderOf(path);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("cannot open", path);
  absl::Cleanup close_it = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("cannot stat", path);
  if (info.st_size > kMaxFileBytes) {
    return absl::DataLossError(absl::StrCat(path, " has ", info.st_size, " bytes"));
  }
  std::string data(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t got = read(fd, data.data() + done, data.size() - done);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("cannot read", path);
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  data.resize(done);
  return data;
}

absl::Status MakeFolder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) == 0) {
      TENSORD_RETURN_IF_ERROR(SyncFolderOf(part));
    } else if (errno != EEXIST) {
      return ErrnoStatus("cannot create folder", part);
    }
    if (end == std::string::npos) break;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("cannot stat", path);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a folder"));
  }
  return absl::OkStatus();
}

uint64_t BytesOnDisk(const std::string& path) {
  constexpr uint64_t kBlock = 512;  // the unit of st_blocks, whatever the file system's
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * kBlock : 0;
}

bool ForEachDigestFile(
    const std::string& folder,
    const std::function<void(const std::string& digest, const std::string& path)>& visit) {
  std::error_code error;
  bool complete = true;
  std::filesystem::recursive_directory_iterator it(folder, error), end;
  while (!error && it != end) {
    const std::string digest = FromHex(it->path().filename().string());
    if (digest.size() == kSha256Bytes) visit(digest, it->path().string());
    it.increment(error);
    // What vanishes meanwhile is not there.
    complete = complete && (!error || error == std::errc::no_such_file_or_directory);
  }
  return complete && (!error || error == std::errc::no_such_file_or_directory);
}

std::string BlobFolder::PathOf(std::string_view sha256) const {
  const std::string hex = ToHex(sha256);
  return absl::StrCat(folder_, "/", hex.substr(0, 2), "/", hex);
}

absl::Status BlobFolder::Put(std::string_view sha256, std::string_view data) const {
  const std::string path = PathOf(sha256);
  TENSORD_RETURN_IF_ERROR(MakeFolder(path.substr(0, path.rfind('/'))));
  return WriteFileAtomically(path, data, 0444, temp_folder_);
}

absl::StatusOr<uint64_t> BlobFolder::Verify(std::string_view sha256) {
  const std::string path = PathOf(sha256);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("cannot find blob", path);
  const FileIdentity identity = IdentityOf(info);
  if (auto known = sound_.find(std::string(sha256)); known != sound_.end()) {
    if (known->second == identity) return identity.size;
    sound_.erase(known);
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, ReadFile(path));
  if (Sha256(data) != sha256) {
    return absl::DataLossError(absl::StrCat("blob ", path, " does not have its digest"));
  }
  if (sound_.size() >= kMaxVerdicts) sound_.clear();
  sound_.emplace(sha256, identity);
  return identity.size;
}

bool BlobFolder::Exists(std::string_view sha256) const {
  return access(PathOf(sha256).c_str(), F_OK) == 0;
}

void BlobFolder::Remove(std::string_view sha256) const { unlink(PathOf(sha256).c_str()); }

}  // namespace tensord::store
