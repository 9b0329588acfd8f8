// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/body.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/kernel_ir/text.h"
#include "compiler/schedule/cpu/transposed_rows.h"

namespace tensord::compiler {

ir::Statement DeclareWidth() {
  return {ir::Declare{.bindings = {{"W", ir::CallOf("kLanes", {})}},
                      .type = ir::kIntType,
                      .mutability = ir::Declare::kConstexpr,
                      .maybe_unused = true}};
}

ir::Value CpuBody::RowArray(BufferId id) {
  auto [it, is_new] = row_arrays_.try_emplace(id);
  if (!is_new) return it->second;
  const std::string name = absl::StrCat("row", row_arrays_.size() - 1);
  const DType dtype = ComputeType(program().buffers[id].dtype);
  const ir::Type type = ir::ScalarType(dtype), pointer = ir::PointerTo(type);
  const Expr elements = sym::Product(nest().inner);
  it->second = ir::Var(name, pointer);
  if (plan_.stack_rows.count(id) != 0) {
    Declare({ir::DeclareArray{
        .type = type, .arrays = {{name, *elements.AsConstant()}}, .alignment = kVectorBytes}});
  } else {
    const Expr offset = interface()->ReserveScratch(elements * ItemSize(dtype));
    const ir::Value at = ir::Var("scratch", ir::BytesType()) + interface()->OfSizes(offset);
    Declare(ir::DeclareAll(pointer, {{name, ir::ReinterpretAs(pointer, at)}}));
  }
  return it->second;
}

ir::Value CpuBody::CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                              const ir::Value& on) {
  std::vector<ir::Value> operands = {ir::Var("args", ir::kArgumentsType), index, Extent(size),
                                     rule.dimension};
  if (on) operands.push_back(on);
  return ir::CallOf(rule.wraps ? "wrapped_index" : "checked_index", std::move(operands));
}

ir::Value CpuBody::CheckDivisor(const ir::Value& divisor, const ir::Value& on) {
  std::vector<ir::Value> operands = {ir::Var("args", ir::kArgumentsType), divisor};
  if (on) operands.push_back(on);
  return ir::CallOf("checked_divisor", std::move(operands));
}

// ---- Tiles

ir::Block CpuBody::EndTiles() {
  tiles_ = false;
  ForgetUnit();
  return std::exchange(fills_, {});
}

ir::Value CpuBody::SpecialLoad(const Inst& inst, const ir::Value& address, const Expr& stride) {
  if (!tiles_ || !IsTransposedLoad(nest(), inst)) return {};
  const ir::Type type = ir::ScalarType(inst.storage);
  auto [it, is_new] = tile_of_.try_emplace(ir::ToString(address));
  ir::Value& tile = it->second;
  if (is_new) {
    tile = ir::Var(absl::StrCat("tile", tile_of_.size() - 1), ir::PointerTo(type));
    Declare({ir::DeclareArray{.type = type,
                              .arrays = {{ir::As<ir::Variable>(tile)->name, Width() * Width()}},
                              .alignment = kVectorBytes}});
    fills_.push_back(
        ir::Do(ir::CallOf("transpose", {type, Width()}, {address, Scalar(stride), tile, Width()})));
  }
  const ir::Value row = LoopVar(static_cast<int>(nest().outer.size()) - 1);
  return ir::CallOf("load", {type, Width()}, {tile + (row - ir::IndexVar("first_row")) * Width()});
}

}  // namespace tensord::compiler
