// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/blobs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/sha256.h"
#include "runtime/base/registry.h"

namespace tensord::runtime {
namespace {

constexpr off_t kMaxBlobBytes = off_t{1} << 30;

TensordError CheckFile(int fd, const std::string& path, uint64_t size, size_t* actual) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return Fail(TENSORD_UNAVAILABLE, "cannot stat blob " + path + ": " + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return Fail(TENSORD_CORRUPT, "blob " + path + " is no regular file");
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return Fail(TENSORD_CORRUPT, "blob " + path + " belongs to another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(TENSORD_CORRUPT, "blob " + path + " may be written by others");
  }
  if (info.st_size <= 0 || info.st_size > kMaxBlobBytes ||
      (size != 0 && static_cast<uint64_t>(info.st_size) != size)) {
    return Fail(TENSORD_CORRUPT, "blob " + path + " has " + std::to_string(info.st_size) +
                                     " bytes, not " + std::to_string(size));
  }
  *actual = static_cast<size_t>(info.st_size);
  return TENSORD_OK;
}

TensordError ReadChecked(int fd, const std::string& path, size_t size, const std::string& sha256,
                         std::string* content) {
  // Read, not mapped: a file that is truncated meanwhile gives a wrong digest, not a SIGBUS.
  content->assign(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, content->data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Fail(TENSORD_CORRUPT, "blob " + path + " cannot be read whole");
    done += static_cast<size_t>(count);
  }
  if (Sha256(*content) != sha256) {
    return Fail(TENSORD_CORRUPT, "blob " + path + " has another digest than its name");
  }
  return TENSORD_OK;
}

// Loads the very file that was hashed, through its descriptor: the path may name another one by
// now. The loader takes an equal name for an equal file before it looks at the inode, and
// descriptor numbers come again, so every load spells the folder in its own way: a counter in "/"
// (0) and "/./" (1).
void* LoadDescriptor(int fd, const std::string& path) {
  static std::atomic<uint32_t> counter{0};
  std::string name = "/proc/self/fd";
  for (uint32_t rest = counter.fetch_add(1) + 1; rest != 0; rest >>= 1) {
    name += (rest & 1) != 0 ? "/./" : "//";
  }
  name += "/" + std::to_string(fd);
  if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  if (access("/proc/self/fd", X_OK) == 0) return nullptr;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

BlobFile::~BlobFile() {
  if (fd_ >= 0) close(fd_);
}

TensordError BlobFile::Read(const std::string& folder, const std::string& sha256, uint64_t size,
                            std::string* content) {
  if (sha256.size() != kSha256Bytes) {
    return Fail(TENSORD_CORRUPT, "a module's digest is not 32 bytes");
  }
  const std::string hex = ToHex(sha256);
  path_ = folder + "/" + hex.substr(0, 2) + "/" + hex;
  fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    return Fail(TENSORD_UNAVAILABLE, "cannot open blob " + path_ + ": " + std::strerror(errno));
  }
  size_t actual = 0;
  TENSORD_TRY(CheckFile(fd_, path_, size, &actual));
  return ReadChecked(fd_, path_, actual, sha256, content);
}

LoadedModule::~LoadedModule() { dlclose(handle_); }

void* LoadedModule::FindFunction(const std::string& name) const {
  return dlsym(handle_, name.c_str());
}

TensordError LoadModule(const std::string& folder, const std::string& sha256, uint64_t size,
                        std::shared_ptr<LoadedModule>* module) {
  auto& registry = Registry<LoadedModule>::Get();
  if ((*module = registry.Find(sha256)) != nullptr) return TENSORD_OK;
  BlobFile file;
  std::string content;
  TENSORD_TRY(file.Read(folder, sha256, size, &content));
  void* handle = LoadDescriptor(file.fd(), file.path());
  if (handle == nullptr) {
    const char* why = dlerror();
    return Fail(TENSORD_CORRUPT,
                "cannot load blob " + file.path() + ": " + (why != nullptr ? why : "?"));
  }
  // Where another thread was first, both hold the same library, which the loader counts.
  *module = registry.Add(sha256, std::make_shared<LoadedModule>(handle, file.path()));
  return TENSORD_OK;
}

}  // namespace tensord::runtime
