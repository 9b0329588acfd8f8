// SPDX-License-Identifier: Apache-2.0
// A precompiled prelude for NVRTC, where it pays.
//
// It saves the parsing of the prelude: with one of 2,000 lines 9 ms of a unit's 58, and making it
// takes 60. NVRTC maps it to the address at which it was made, so with randomised addresses only
// the process that made it can use it. So a process makes one after as many units as it takes to
// pay, and short-lived ones never do.
#ifndef TENSORD_COMPILER_JIT_NVRTC_PCH_H_
#define TENSORD_COMPILER_JIT_NVRTC_PCH_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/jit/folder.h"
#include "compiler/jit/nvrtc/library.h"

namespace tensord::jit {

inline constexpr int kUnitsBeforePch = 7;

class PrecompiledPrelude {
 public:
  // The one of this process for these options, which name the architecture; it lives on.
  static PrecompiledPrelude* Of(const NvrtcLibrary& library,
                                const std::vector<std::string>& options);

  // Called once for each unit; makes the file, in a folder of its own below `work_folder`, when it
  // pays. The file's path; empty when there is none: not yet, or NVRTC or the disk refused.
  // Thread-safe; nobody waits for the one who makes it.
  std::string Use(const std::string& work_folder);

 private:
  PrecompiledPrelude(const NvrtcLibrary& library, std::vector<std::string> options)
      : library_(library), options_(std::move(options)) {}

  const NvrtcLibrary& library_;
  const std::vector<std::string> options_;
  absl::Mutex mutex_;
  int units_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  std::optional<TemporaryFolder> folder_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_PCH_H_
