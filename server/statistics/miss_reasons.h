// SPDX-License-Identifier: Apache-2.0
// Why a program that was asked for was not stored (server/compile/explain_miss.h finds out), and
// what each reason is called in statistics, logs and answers.
#ifndef TENSORD_SERVER_STATISTICS_MISS_REASONS_H_
#define TENSORD_SERVER_STATISTICS_MISS_REASONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tensord::server {

// kGraph to kCompiler: a stored program is near, and the first of these in which it differs.
enum class MissReason : uint8_t {
  kNew,        // nothing stored is near
  kUnknown,    // neither is anything of which it is known; older daemons stored more
  kEvicted,    // it was stored, and went for want of room
  kLost,       // it was stored, and its files were damaged or deleted
  kGraph,      // most of the same operators, or the same with other numbers among their arguments
  kInputs,     // the same operators, with inputs of other shapes, types or strides
  kTarget,     // the same graph for another architecture, or other caches
  kOptions,    // with other options
  kToolchain,  // with another C++ compiler or NVRTC, other flags, another prelude
  kCompiler,   // by another build of tensord
};

inline constexpr std::array<const char*, 10> kMissReasons = {
    "new",    "unknown", "evicted", "lost",      "graph",
    "inputs", "target",  "options", "toolchain", "compiler"};

inline const char* NameOf(MissReason reason) { return kMissReasons[static_cast<size_t>(reason)]; }

}  // namespace tensord::server

#endif  // TENSORD_SERVER_STATISTICS_MISS_REASONS_H_
