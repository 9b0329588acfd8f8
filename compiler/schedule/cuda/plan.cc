// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/plan.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace tensord::compiler {

const RowGroup& CudaPlan::group() const {
  static const auto* const kAlone = new RowGroup;
  if (const auto* rows = As<CudaRows>()) return rows->group;
  if (const auto* sweep = As<CudaSweep>()) return sweep->group;
  if (const auto* split = As<CudaSplit>()) return split->group;
  if (const auto* scan = As<CudaScanRows>()) return scan->group;
  return *kAlone;
}

int CudaPlan::vectors_in_flight() const {
  const auto* elements = As<CudaElements>();
  return elements != nullptr ? elements->vectors_in_flight : group().vectors_in_flight;
}

const ColumnTiles* CudaPlan::column_tiles() const {
  const std::optional<ColumnTiles>* tiles = nullptr;
  if (const auto* rows = As<CudaRows>()) tiles = &rows->column_tiles;
  if (const auto* sweep = As<CudaSweep>()) tiles = &sweep->column_tiles;
  return tiles != nullptr && *tiles ? &**tiles : nullptr;
}

bool CudaPlan::loops_rows() const {
  const auto* rows = As<CudaRows>();
  const auto* scan = As<CudaScanRows>();
  return Is<CudaSweep>() || (rows != nullptr && rows->loops) || (scan != nullptr && scan->loops);
}

bool CudaPlan::loads_first() const {
  const auto* rows = As<CudaRows>();
  const auto* scan = As<CudaScanRows>();
  return (rows != nullptr && rows->loads_first) || (scan != nullptr && scan->loads_first);
}

bool CudaPlan::combines_in_last_block() const {
  const auto* sweep = As<CudaSweep>();
  const auto* groups = As<CudaColumnGroups>();
  return Is<CudaSplit>() || (sweep != nullptr && !sweep->finish) ||
         (groups != nullptr && groups->parts > 1);
}

int CudaPlan::combine_bytes() const {
  const auto* sweep = As<CudaSweep>();
  const auto* groups = As<CudaColumnGroups>();
  return sweep != nullptr ? sweep->combine_bytes : groups != nullptr ? groups->combine_bytes : 0;
}

bool CudaPlan::owns_columns() const { return Is<CudaColumns>() || Is<CudaColumnGroups>(); }

int CudaPlan::scanned_parts() const {
  const auto* columns = As<CudaColumns>();
  const auto* scan = As<CudaScanRows>();
  return columns != nullptr ? columns->parts : scan != nullptr ? scan->parts : 1;
}

std::string ToString(const CudaPlan& plan) {
  static constexpr const char* kKinds[] = {"elements", "tiles",   "rows",      "sweep",
                                           "split",    "columns", "scan-rows", "column-groups"};
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
  if (plan.loads_first()) text += " loads-first";
  if (const auto* rows = plan.As<CudaRows>(); rows != nullptr && rows->evicts_loads_last) {
    text += " evicts-loads-last";
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
  if (const auto* columns = plan.As<CudaColumns>();
      columns != nullptr && columns->rows_in_flight > 0) {
    absl::StrAppend(&text, " rows", columns->rows_in_flight);
  }
  if (const auto* groups = plan.As<CudaColumnGroups>()) {
    absl::StrAppend(&text, " columns", groups->columns);
    if (groups->parts > 1) absl::StrAppend(&text, " parts", groups->parts);
  }
  if (plan.scanned_parts() > 1) absl::StrAppend(&text, " parts", plan.scanned_parts());
  if (plan.combines_in_last_block()) text += " last-block";
  return text;
}

std::string DetailsOf(const CudaPlan& plan) {
  const RowGroup& group = plan.group();
  std::vector<std::string> details;
  if (group.whole_vectors < group.register_vectors) {
    details.push_back(absl::StrCat(group.whole_vectors, " whole"));
  }
  if (plan.vectors_in_flight() > 0) {
    details.push_back(absl::StrCat(plan.vectors_in_flight(), " in flight"));
  }
  for (const std::vector<int>& sums : group.joint_sums) {
    details.push_back(absl::StrCat("joint sums ", absl::StrJoin(sums, " ")));
  }
  if (const auto* groups = plan.As<CudaColumnGroups>()) {
    details.push_back(absl::StrCat(groups->rows_in_flight, " rows in flight"));
    details.push_back(absl::StrCat("through ", groups->combine_bytes, " bytes"));
  }
  if (const auto* sweep = plan.As<CudaSweep>()) {
    for (const auto& [reduction, vectors] : sweep->combined_vectors) {
      details.push_back(absl::StrCat("combines ", vectors, "@", reduction));
    }
    if (sweep->combine_bytes > 0) {
      details.push_back(absl::StrCat("through ", sweep->combine_bytes, " bytes"));
    }
    if (const auto& finish = sweep->finish) {
      details.push_back(absl::StrCat("finish t", finish->threads, " columns", finish->columns, " ",
                                     finish->copies_in_flight, " in flight"));
    }
  }
  return absl::StrJoin(details, ", ");
}

}  // namespace tensord::compiler
