// SPDX-License-Identifier: Apache-2.0
// Folders of files that are made once and used by later processes, such as the prelude with its
// precompiled header: what a disk or a hand changed there would become part of every kernel.
#ifndef TENSORD_COMPILER_JIT_SEAL_H_
#define TENSORD_COMPILER_JIT_SEAL_H_

#include <string>

#include "base/status.h"

namespace tensord::jit {

// Writes `folder`/seal: a digest of `key` and of every file there, its path with it.
absl::Status Seal(const std::string& folder, const std::string& key);

// Whether the files of `folder` are those that were sealed with `key`, no more and no fewer. They
// are read once, and again when the inode, size, modification or change time of one differs.
// Thread-safe.
bool IsSealed(const std::string& folder, const std::string& key);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_SEAL_H_
