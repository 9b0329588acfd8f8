// SPDX-License-Identifier: Apache-2.0
// What the daemon must know of its workers to make keys and greet clients, asked once and
// remembered: in memory until a binary changes, and in the store's notes for the next daemon.
#ifndef TENSORD_SERVER_COMPILE_WORKER_FACTS_H_
#define TENSORD_SERVER_COMPILE_WORKER_FACTS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/pool/worker_pool.h"
#include "server/store/store.h"

namespace tensord::server {

class WorkerFacts {
 public:
  // `cxx` is the host compiler's name or path, `jit_settings` what else decides the JIT's output.
  WorkerFacts(std::string worker_path, std::string cxx, std::string jit_settings, WorkerPool* pool,
              store::Store* store);

  struct Toolchain {
    std::string id;              // of jit::ToolchainInfo
    std::string compiler_build;  // digest of the worker binary
  };
  // Without asking a worker: nothing when one has to be asked. Takes microseconds.
  std::optional<Toolchain> CachedToolchain(const v1::Target& target);
  // Asks a worker if need be. FailedPrecondition: no host compiler, no NVRTC.
  absl::StatusOr<Toolchain> GetToolchain(const v1::Target& target);

  // Always asks a worker: a compiler may have been installed a moment ago. Unavailable: all are
  // busy.
  absl::StatusOr<v1::ToolchainList> GetToolchainList();

  struct Operators {
    std::string table;  // hash of the names
    std::vector<std::string> names;
  };
  std::optional<Operators> CachedOperators();
  absl::StatusOr<Operators> GetOperators();

 private:
  // Of the worker binary and the host compiler: when it changes, everything is asked again. NVRTC
  // is found by the workers, so its file is known, and watched, once one has answered.
  std::string Binaries() const;
  // Clears what is remembered about other binaries.
  void Refresh(const std::string& binaries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> CompilerBuild(const std::string& binaries);

  const std::string worker_path_;
  const std::string cxx_;
  const std::string jit_settings_;
  WorkerPool* const pool_;
  store::Store* const store_;

  absl::Mutex asking_;  // one question at a time; before mutex_
  absl::Mutex mutex_;
  std::string binaries_ ABSL_GUARDED_BY(mutex_);
  std::string compiler_build_ ABSL_GUARDED_BY(mutex_);
  struct Known {
    std::string id, file, stamp;  // the compiler's file, and what it was like when it was asked
  };
  std::map<std::string, Known> toolchains_ ABSL_GUARDED_BY(mutex_);  // by serialised target
  std::optional<Operators> operators_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_WORKER_FACTS_H_
