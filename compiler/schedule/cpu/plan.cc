// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/plan.h"

#include <absl/strings/str_cat.h>

namespace tensord::compiler {

std::string ToString(const CpuPlan& plan) {
  static constexpr const char* kKinds[] = {"flat", "rows", "transposed-rows", "column-blocks"};
  std::string text = absl::StrCat(kKinds[plan.kind.index()], " w", plan.lanes);
  if (plan.has_tail) text += " tail";
  if (const auto* flat = plan.As<CpuFlat>()) absl::StrAppend(&text, " chunk", flat->chunk);
  if (const auto* blocks = plan.As<CpuColumnBlocks>()) {
    absl::StrAppend(&text, " columns", blocks->columns);
  }
  for (const auto& [position, copies] : plan.accumulator_copies) {
    absl::StrAppend(&text, " copies", copies, "@", position);
  }
  for (const auto& [position, part] : plan.chains.passes) {
    absl::StrAppend(&text, " part", part.iterations, "of", part.loop, "@", position);
  }
  if (plan.chains.units > 0) absl::StrAppend(&text, " units", plan.chains.units);
  if (!plan.stack_rows.empty()) absl::StrAppend(&text, " stack-rows", plan.stack_rows.size());
  return absl::StrCat(text, " cost ", plan.cost);
}

}  // namespace tensord::compiler
