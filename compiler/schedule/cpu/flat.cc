// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/flat.h"

#include "compiler/schedule/reject.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kChunk = 4096;

}  // namespace

absl::Status CanScheduleFlat(const Nest& nest) {
  if (nest.shape != NestShape::kFlat) return Reject("it has rows");
  if (nest.inner.empty()) return Reject("it is one element");
  return absl::OkStatus();
}

CpuFlat ScheduleFlat() { return {.chunk = kChunk}; }

}  // namespace tensord::compiler
