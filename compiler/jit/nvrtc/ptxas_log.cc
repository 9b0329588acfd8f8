// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/nvrtc/ptxas_log.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <vector>

namespace tensord::jit {
namespace {

// The number before `unit` in "Used 32 registers, 16 bytes smem", or 0.
uint32_t NumberBefore(absl::string_view line, absl::string_view unit) {
  for (absl::string_view part : absl::StrSplit(line, ',')) {
    const size_t at = part.find(unit);
    if (at == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(part.substr(0, at), ' ');
    uint32_t number = 0;
    if (absl::SimpleAtoi(words.back(), &number)) return number;
  }
  return 0;
}

}  // namespace

v1::UnitResources ParsePtxasLog(const std::string& log) {
  uint32_t registers = 0, spills = 0, shared = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    registers = std::max(registers, NumberBefore(line, " registers"));
    shared = std::max(shared, NumberBefore(line, " bytes smem"));
    spills += NumberBefore(line, " bytes spill stores") + NumberBefore(line, " bytes spill loads");
  }
  v1::UnitResources resources;
  resources.set_registers(registers);
  resources.set_spill_bytes(spills);
  resources.set_shared_bytes(shared);
  return resources;
}

}  // namespace tensord::jit
