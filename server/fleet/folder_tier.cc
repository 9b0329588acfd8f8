// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/folder_tier.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tensord::fleet {
namespace {

// Trouble of the disk or of who may do what: one of the first kind is the tier's not answering.
absl::Status Trouble(const char* what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat(what, " ", path);
  const absl::Status status = absl::ErrnoToStatus(error, text);
  if (absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status) || error == EROFS) {
    return absl::FailedPreconditionError(status.message());
  }
  return absl::UnavailableError(status.message());
}

// Of a root whose mode is 0775: folders 0775, files 0664.
struct Modes {
  mode_t folder, file;
};

class FolderTier : public Tier {
 public:
  explicit FolderTier(std::string root) : root_(std::move(root)) {}

  std::string Where() const override { return "file://" + root_; }

  absl::StatusOr<std::vector<std::optional<std::string>>> Get(const std::vector<Wanted>& wanted,
                                                              absl::Time deadline) override {
    TENSORD_RETURN_IF_ERROR(LookAtRoot().status());
    std::vector<std::optional<std::string>> all;
    for (const Wanted& one : wanted) {
      if (absl::Now() > deadline) return absl::DeadlineExceededError("the folder is slow");
      const uint64_t most = one.bytes != 0 ? one.bytes : kMostUnknownBytes;
      absl::StatusOr<std::string> value = Read(PathOf(one.name), most);
      if (!value.ok() && !absl::IsNotFound(value.status())) return value.status();
      all.push_back(value.ok() ? std::optional(*std::move(value)) : std::nullopt);
    }
    return all;
  }

  absl::Status Put(const std::vector<Object>& objects, absl::Time deadline) override {
    TENSORD_ASSIGN_OR_RETURN(const Modes modes, LookAtRoot());
    for (const Object& object : objects) {
      if (absl::Now() > deadline) return absl::DeadlineExceededError("the folder is slow");
      TENSORD_RETURN_IF_ERROR(MakeFolders(object.name, modes));
      TENSORD_ASSIGN_OR_RETURN(const std::string fresh, WriteAside(object.value, modes));
      const std::string path = PathOf(object.name);
      if (rename(fresh.c_str(), path.c_str()) == 0) continue;
      const absl::Status failed = Trouble("cannot rename to", path);
      unlink(fresh.c_str());
      return failed;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                    absl::Duration lifetime, absl::Time deadline) override {
    TENSORD_ASSIGN_OR_RETURN(const Modes modes, LookAtRoot());
    TENSORD_RETURN_IF_ERROR(MakeFolders(name, modes));
    const std::string path = PathOf(name);
    TENSORD_ASSIGN_OR_RETURN(const std::string fresh, WriteAside(value, modes));
    const absl::Cleanup remove = [&] { unlink(fresh.c_str()); };
    while (absl::Now() < deadline) {
      // link() is atomic on NFS too, and gives the name to one of all who try.
      if (link(fresh.c_str(), path.c_str()) == 0) return value;
      if (errno != EEXIST) return Trouble("cannot create", path);
      struct stat held, own;
      if (stat(path.c_str(), &held) != 0 || stat(fresh.c_str(), &own) != 0) continue;
      // By one clock, the file server's.
      if (absl::Seconds(own.st_mtime - held.st_mtime) <= lifetime) {
        absl::StatusOr<std::string> there = Read(path, kMostUnknownBytes);
        if (there.ok()) return there;
        if (!absl::IsNotFound(there.status())) return there.status();
      } else {
        unlink(path.c_str());  // of a host that died; at worst two hosts do the same
      }
    }
    return absl::DeadlineExceededError("the folder is slow");
  }

  absl::Status Release(const std::string& name, const std::string& value, absl::Time) override {
    const std::string path = PathOf(name);
    const auto there = Read(path, kMostUnknownBytes);
    if (there.ok() && *there == value) unlink(path.c_str());
    return absl::OkStatus();
  }

 private:
  std::string Temp() const { return root_ + "/tmp"; }
  std::string PathOf(const std::string& name) const {
    return absl::StrCat(root_, "/", FolderPath(name));
  }

  absl::StatusOr<Modes> LookAtRoot() const {
    struct stat info;
    if (stat(root_.c_str(), &info) != 0) return Trouble("cannot find", root_);
    if (!S_ISDIR(info.st_mode)) return absl::UnavailableError(root_ + " is not a folder");
    return Modes{info.st_mode & 0777, info.st_mode & 0666};
  }

  absl::Status MakeFolders(const std::string& name, const Modes& modes) const {
    const std::string path = PathOf(name);
    const std::string folder = path.substr(0, path.rfind('/'));
    for (const std::string& one : {Temp(), folder.substr(0, folder.rfind('/')), folder}) {
      if (!Make(one, modes.folder) && errno != EEXIST) return Trouble("cannot create", one);
    }
    return absl::OkStatus();
  }

  // Whatever the process's umask is, and with the group that a folder above hands down, whose bit
  // chmod would take away: by an umask of this thread's own.
  static bool Make(const std::string& folder, mode_t mode) {
    thread_local const bool has_umask = unshare(CLONE_FS) == 0;
    const mode_t before = has_umask ? umask(0) : 0;
    const bool made = mkdir(folder.c_str(), mode) == 0;
    const int error = errno;
    if (has_umask) umask(before);
    if (made && !has_umask) chmod(folder.c_str(), mode);
    errno = error;
    return made;
  }

  // A new file under tmp/: its path. Nothing is synced, for what a power cut leaves torn is refused
  // by its digest, compiled, and put again.
  absl::StatusOr<std::string> WriteAside(const std::string& value, const Modes& modes) const {
    std::string path = Temp() + "/XXXXXX";
    const int fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) return Trouble("cannot create", path);
    size_t done = 0;
    while (done < value.size()) {
      const ssize_t written = write(fd, value.data() + done, value.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) break;
      done += static_cast<size_t>(written);
    }
    // A full disk of another machine may say so no sooner than here.
    const bool failed = done < value.size() || fchmod(fd, modes.file) != 0;
    const absl::Status status = failed ? Trouble("cannot write", path) : absl::OkStatus();
    if (close(fd) == 0 && !failed) return path;
    const absl::Status closed = failed ? status : Trouble("cannot write", path);
    unlink(path.c_str());
    return closed;
  }

  // NotFound; Unavailable. Up to a byte more than `most`.
  static absl::StatusOr<std::string> Read(const std::string& path, uint64_t most) {
    // A pipe that somebody put there must not make us wait.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) {
      if (errno == ENOENT || errno == ESTALE) return absl::NotFoundError(path);
      return Trouble("cannot open", path);
    }
    const absl::Cleanup close_it = [fd] { close(fd); };
    struct stat info;
    if (fstat(fd, &info) != 0) return Trouble("cannot stat", path);
    if (!S_ISREG(info.st_mode)) return absl::NotFoundError(path);
    std::string bytes(std::min<uint64_t>(static_cast<uint64_t>(info.st_size), most + 1), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = read(fd, bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == ESTALE) return absl::NotFoundError(path);
      if (got < 0) return Trouble("cannot read", path);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

  const std::string root_;
};

}  // namespace

std::string FolderPath(const std::string& name) {
  const size_t slash = name.find('/');
  return absl::StrCat(name.substr(0, slash), "/", name.substr(slash + 1, 2), "/",
                      name.substr(slash + 1));
}

std::unique_ptr<Tier> MakeFolderTier(std::string root) {
  return std::make_unique<FolderTier>(std::move(root));
}

}  // namespace tensord::fleet
