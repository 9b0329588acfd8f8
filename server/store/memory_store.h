// SPDX-License-Identifier: Apache-2.0
// What could not be written: programs, kernels and frames that a full or failing disk did not take.
// They are served from memory, so that no request fails for want of space, and written when there
// is some.
//
// Every function may be called from several threads.
#ifndef TENSORD_SERVER_STORE_MEMORY_STORE_H_
#define TENSORD_SERVER_STORE_MEMORY_STORE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/frame_facts.h"
#include "server/store/program_facts.h"
#include "server/store/records.h"

namespace tensord::store {

struct KernelRow {
  std::string sha256;
  uint64_t size = 0;  // bytes of the blob
  std::string facts;  // what its maker wants to know again; opaque here
};

class MemoryStore {
 public:
  // More than `limit_bytes` are not held: it starts again empty, rather than grow.
  explicit MemoryStore(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  struct Kernel {
    KernelRow row;
    std::string binary;
    std::string source;
  };
  struct Program {
    Record record;
    std::string detail;
    ProgramFacts facts;
  };
  struct Frame {
    Record record;
    FrameFacts facts;
    int64_t created_ms = 0;
  };
  void PutKernel(std::string_view kernel_key, Kernel kernel);
  void PutProgram(std::string_view key, Program program);
  // Over one of the same key.
  void PutFrame(std::string_view key, Frame frame);

  std::shared_ptr<const Kernel> FindKernel(std::string_view kernel_key) const;
  std::shared_ptr<const Program> FindProgram(std::string_view key) const;
  std::shared_ptr<const Frame> FindFrame(std::string_view key) const;
  // The kernel whose binary has the digest; null: none.
  std::shared_ptr<const Kernel> FindBlob(std::string_view sha256) const;

  bool empty() const;
  // All that is there, for a writer.
  std::vector<std::pair<std::string, std::shared_ptr<const Kernel>>> Kernels() const;
  std::vector<std::pair<std::string, std::shared_ptr<const Program>>> Programs() const;
  std::vector<std::pair<std::string, std::shared_ptr<const Frame>>> Frames() const;
  // What has been written.
  void RemoveKernel(const std::string& kernel_key);
  void RemoveProgram(const std::string& key);
  void RemoveFrame(const std::string& key);

 private:
  void MakeRoom(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t limit_bytes_;
  mutable absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<const Kernel>, std::less<>> kernels_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const Kernel>, std::less<>> by_digest_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const Program>, std::less<>> programs_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const Frame>, std::less<>> frames_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_MEMORY_STORE_H_
