// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/body.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/codegen/reductions.h"
#include "compiler/kernel_ir/text.h"
#include "compiler/schedule/cpu/transposed_rows.h"

namespace tensord::compiler {

ir::Statement DeclareWidth() {
  return {ir::Declare{.bindings = {{"W", ir::CallOf("kLanes", {})}},
                      .type = ir::kIntType,
                      .mutability = ir::Declare::kConstexpr}};
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
    const ir::Value at = ir::Var("scratch", ir::BytesType()) + Scalar(offset);
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

ir::Value CpuBody::CheckData(DataCheck check, const ir::Value& value, const ir::Value& on) {
  std::vector<ir::Value> operands = {ir::Var("args", ir::kArgumentsType), value};
  if (on) operands.push_back(on);
  return ir::CallOf(InfoOf(check).cpu_function, std::move(operands));
}

// ---- Scans

namespace {

ir::Value ScanCall(const Inst& inst, const ir::Value& before, const ir::Value& vector) {
  if (inst.in_order && inst.op == Op::k_add) return ir::CallOf("scan_sums", {before, vector});
  if (inst.in_order && inst.op == Op::k_mul) return ir::CallOf("scan_products", {before, vector});
  const bool is_extreme = inst.op == Op::k_minimum || inst.op == Op::k_maximum;
  const char* const function = inst.in_order ? "scan_in_order"
                               : is_extreme  ? "scan_extreme"
                                             : "scan";
  return ir::CallOf(function, {before, vector, ir::CombinerOf(InfoOf(inst.op).name)});
}

}  // namespace

const ir::Value& CpuBody::ScannedBefore(int id) {
  auto [it, is_new] = scanned_.try_emplace({&member(), id});
  if (!is_new) return it->second;
  const Inst& inst = InstOf(id);
  const std::string name = absl::StrCat("scanned", scanned_.size() - 1);
  const ir::Value identity = ScanIdentityOf(inst.op, inst.dtype);
  if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
    const ir::Type type = ir::ScalarType(inst.dtype);
    it->second = ir::Var(name, ir::PointerTo(type));
    Add(0, {ir::DeclareArray{
               .type = type, .arrays = {{name, blocks->columns}}, .alignment = kVectorBytes}});
    Add(0, {ir::For{.variable = "c",
                    .first = 0,
                    .condition = ir::IndexVar("c") < blocks->columns,
                    .step = 1,
                    .body = {ir::Set(ir::At(it->second, ir::IndexVar("c")), identity)}}});
  } else {
    const ir::Value start = ir::CallOf("broadcast", {ir::Value(1)}, {identity});
    it->second = ir::Var(name, start.type());
    Add(0, ir::Mutable(name, start));
  }
  return it->second;
}

ir::Value CpuBody::ScanVector(int id, const ir::Value& vector) {
  const Inst& inst = InstOf(id);
  const ir::Value before = ScannedBefore(id);
  const int level = vector_level();
  if (plan_.As<CpuColumnBlocks>() != nullptr) {
    const ir::Type type = ir::ScalarType(inst.dtype);
    const ir::Value at = before + (LoopVar(VectorLoop().second) - ir::IndexVar("first"));
    const ir::Value result =
        Define(level, ir::CallOf(InfoOf(inst.op).name, {LoadNeighbours(type, at), vector}));
    Add(level, ir::Do(StoreNeighbours(type, at, result)));
    return result;
  }
  ir::Value value = vector;
  if (tail()) {
    // Lanes beyond the end add nothing to what rows of several loops go on with.
    const ir::Value identity = ScanIdentityOf(inst.op, inst.dtype);
    value =
        ir::CallOf("where", {FirstLanes(), value, ir::CallOf("broadcast", {Width()}, {identity})});
  }
  return Define(level, ScanCall(inst, before, value));
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
