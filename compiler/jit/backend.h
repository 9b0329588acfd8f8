// SPDX-License-Identifier: Apache-2.0
// What each kind of target brings to Jit(): a compiler of units.
#ifndef TENSORD_COMPILER_JIT_BACKEND_H_
#define TENSORD_COMPILER_JIT_BACKEND_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "compiler/jit/config.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::jit {

struct CompiledUnit {
  std::string binary;           // empty when the unit failed
  std::string failure;          // what the compiler says about the unit's source; or empty
  v1::UnitResources resources;  // of GPU kernels
};

// A compiler that is found and prepared, for one target.
class Backend {
 public:
  virtual ~Backend() = default;
  // Of every binary.
  virtual v1::Module::Kind kind() const = 0;
  // Thread-safe. A status is no fault of the unit: no unit can be compiled.
  virtual absl::StatusOr<CompiledUnit> Compile(const v1::KernelUnit& unit) const = 0;
};

// A row of the table of targets in jit.cc.
struct BackendEntry {
  v1::Target::KindCase target;
  const char* name;  // for people
  absl::StatusOr<std::unique_ptr<Backend>> (*open)(const v1::Target&, const JitConfig&);
  absl::StatusOr<ToolchainInfo> (*toolchain)(const v1::Target&, const JitConfig&);
  // Which compiler it is and where, without a target: "13.5 (/usr/lib/libnvrtc.so.13)".
  absl::StatusOr<std::string> (*describe)(const JitConfig&);
};

// What CompiledUnit::failure says: who failed on what, called how, and the end of its words.
std::string FailureText(const std::string& compiler, const v1::KernelUnit& unit,
                        const std::string& code, const std::string& command,
                        const std::string& output);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_BACKEND_H_
