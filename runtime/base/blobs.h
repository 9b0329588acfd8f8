// SPDX-License-Identifier: Apache-2.0
// Kernel binaries: files named by their SHA-256, verified and loaded once per process.
#ifndef TENSORD_RUNTIME_BASE_BLOBS_H_
#define TENSORD_RUNTIME_BASE_BLOBS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/error.h"

namespace tensord::runtime {

// An open blob whose content was checked.
class BlobFile {
 public:
  BlobFile() = default;
  ~BlobFile();
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;

  // Opens <folder>/ab/<sha256>: a regular file of this user or of root that nobody else may write,
  // of `size` bytes (0: any) with that digest. TENSORD_UNAVAILABLE when it is missing,
  // TENSORD_CORRUPT when it is something else. Once.
  TensordError Read(const std::string& folder, const std::string& sha256, uint64_t size,
                    std::string* content);

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// A loaded shared object; closed when the last program that uses it goes.
class LoadedModule {
 public:
  LoadedModule(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  void* FindFunction(const std::string& name) const;  // null when absent
  const std::string& path() const { return path_; }

 private:
  void* handle_;
  std::string path_;
};

// Reads a blob as BlobFile does and loads it as a shared object, once per process.
TensordError LoadModule(const std::string& folder, const std::string& sha256, uint64_t size,
                        std::shared_ptr<LoadedModule>* module);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_BASE_BLOBS_H_
