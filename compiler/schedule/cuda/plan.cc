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
