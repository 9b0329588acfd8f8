// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/plan.h"

#include <absl/strings/str_cat.h>

namespace tensord::compiler {

RowGroup CudaPlan::group() const {
  if (const auto* rows = As<CudaRows>()) return rows->group;
  if (const auto* sweep = As<CudaSweep>()) return sweep->group;
  if (Is<CudaSplit>()) return {.threads = threads};
  return {};
}

const ColumnTiles* CudaPlan::column_tiles() const {
  const std::optional<ColumnTiles>* tiles = nullptr;
  if (const auto* rows = As<CudaRows>()) tiles = &rows->column_tiles;
  if (const auto* sweep = As<CudaSweep>()) tiles = &sweep->column_tiles;
  return tiles != nullptr && *tiles ? &**tiles : nullptr;
}

bool CudaPlan::loops_rows() const {
  const auto* rows = As<CudaRows>();
  return Is<CudaSweep>() || (rows != nullptr && rows->loops);
}

bool CudaPlan::combines_in_last_block() const {
  const auto* sweep = As<CudaSweep>();
  return Is<CudaSplit>() || (sweep != nullptr && sweep->combines_in_last_block);
}

absl::Status VerifyCudaPlan(const CudaPlan& plan) {
  const auto* sweep = plan.As<CudaSweep>();
  const auto* rows = plan.As<CudaRows>();
  const bool is_empty = plan.width <= 0 || plan.threads <= 0 || plan.resident <= 0 || plan.G() <= 0;
  if (is_empty) return absl::InternalError("a plan without threads");
  const bool in_registers = plan.register_vectors() > 0, has_tiles = plan.column_tiles() != nullptr;
  const struct {
    bool is_broken;
    const char* how;
  } rules[] = {
      {plan.threads % plan.G() != 0, "groups do not fill the block"},
      {has_tiles && !in_registers, "tiles of columns have no registers"},
      {has_tiles && plan.combines_in_last_block(),
       "the last block would have many copies of its columns to combine"},
      {sweep != nullptr && sweep->prefetches && !in_registers,
       "what is prefetched has no registers"},
      {sweep != nullptr && plan.is_peeled(), "a sweep peels its rows"},
      {rows != nullptr && rows->loads_first && !in_registers,
       "what is loaded first has no registers"},
      {rows != nullptr && rows->column_tiles && !rows->loops,
       "tiles of columns do not go over rows"},
  };
  for (const auto& rule : rules) {
    if (rule.is_broken) return absl::InternalError(rule.how);
  }
  return absl::OkStatus();
}

std::string ToString(const CudaPlan& plan) {
  static constexpr const char* kKinds[] = {"elements", "tiles", "rows",
                                           "sweep",    "split", "columns"};
  static constexpr const char* kAccess[] = {"", " partial", " unaligned", " peeled",
                                            " interleaved"};
  std::string text = absl::StrCat(kKinds[plan.kind.index()], " w", plan.width);
  if (const auto* tiles = plan.As<CudaTiles>()) {
    absl::StrAppend(&text, " ", tiles->along, "x", tiles->across);
    for (const TileOperand& operand : tiles->operands) absl::StrAppend(&text, " r", operand.run);
  }
  absl::StrAppend(&text, " t", plan.threads, " g", plan.G(), " c", plan.register_vectors(),
                  kAccess[static_cast<size_t>(plan.access())]);
  if (plan.column_tiles() != nullptr) text += " column-tiles";
  if (plan.loops_rows()) text += " loops";
  if (const auto* rows = plan.As<CudaRows>()) {
    if (rows->loads_first) text += " loads-first";
    if (rows->evicts_loads_last) text += " evicts-loads-last";
  }
  if (const auto* sweep = plan.As<CudaSweep>(); sweep != nullptr && sweep->prefetches) {
    text += " prefetches";
  }
  if (const auto* elements = plan.As<CudaElements>();
      elements != nullptr && elements->vectors_per_thread > 1) {
    absl::StrAppend(&text, " vectors", elements->vectors_per_thread);
  }
  if (const auto* split = plan.As<CudaSplit>(); split != nullptr && split->parts > 1) {
    absl::StrAppend(&text, " parts", split->parts);
  }
  if (plan.combines_in_last_block()) text += " last-block";
  return text;
}

}  // namespace tensord::compiler
