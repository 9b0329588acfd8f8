// SPDX-License-Identifier: Apache-2.0
// The scans of a CUDA nest's bodies. What CPU kernels combine in the order of the elements
// (Inst::in_order) is combined so in columns alone: eager's scans of rows are trees here as well.
#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "compiler/codegen/cuda/accumulators.h"
#include "compiler/codegen/cuda/body.h"
#include "compiler/codegen/reductions.h"

namespace tensord::compiler {
namespace {

// Totals of parts before its own whose loads a thread has under way at once.
constexpr int kTotalsInFlight = 8;

}  // namespace

bool LooksForVectors(const CudaScanRows& rows) {
  return rows.group.register_vectors == 0 || rows.group.whole_vectors < rows.group.register_vectors;
}

ir::Value VectorExists() { return ir::Var("exists", ir::kBoolType); }

ir::Value PartNumber() { return ir::IndexVar("part"); }

void CudaBody::ScanInParts(const ScanTotals* totals, int launch) {
  totals_ = totals->launches() > 0 ? totals : nullptr;
  launch_ = launch;
}

bool CudaBody::SeeksTotal(int id) const {
  return FindsTotals() && totals_->depths().Of(member(), id) == launch_;
}

const ir::Value& CudaBody::ScannedBefore(int id) {
  auto [it, is_new] = scanned_.try_emplace({&member(), id});
  if (!is_new) return it->second;
  const std::string name = absl::StrCat("scanned", scanned_.size() - 1);
  const ir::Value start = StartOf(id);
  it->second = ir::Var(name, start.type());
  Add(0, ir::Mutable(name, start));
  const bool starts_behind = totals_ != nullptr && !SeeksTotal(id);
  if (starts_behind && plan_.Is<CudaColumns>()) Add(0, CombineParts(id, it->second));
  return it->second;
}

ir::Value CudaBody::StartOf(int id) {
  const Inst& inst = InstOf(id);
  const ir::Value identity = ScanIdentityOf(inst.op, inst.dtype);
  if (plan_.Is<CudaColumns>() || SeeksTotal(id)) {
    return ir::CallOf("broadcast", {Width()}, {identity});
  }
  if (totals_ == nullptr) return ir::CallOf("broadcast", {ir::Value(1)}, {identity});
  const ir::Value first = TotalsOf(id) + ir::IndexVar("row") * ir::Value(plan_.scanned_parts());
  const ir::Value before = ir::CallOf(
      "group_before", {ir::Pointee(first.type()), ir::Value(plan_.G())},
      {first, PartNumber(), ir::CombinerOf(InfoOf(inst.op).name), identity, GroupMemory()});
  return ir::CallOf("broadcast", {ir::Value(1)}, {before});
}

ir::Value CudaBody::TotalsOf(int id) {
  const ir::Type number = ir::ScalarType(ComputeType(InstOf(id).dtype));
  return ir::ReinterpretAs(ir::PointerTo(number),
                           ir::ScratchArgument() + Extent(totals_->OffsetOf(member(), id)));
}

ir::Statement CudaBody::CombineParts(int id, const ir::Value& before) {
  const ir::Value totals = TotalsOf(id), vectors = ir::IndexVar("vectors");
  const ir::Value parts = plan_.scanned_parts(), earlier = ir::IndexVar("earlier");
  const ir::Value thread =
      (ir::IndexVar("row") * parts + earlier) * vectors + ir::IndexVar("unit") % vectors;
  const ir::Value total =
      ir::CallOf("load", {ir::Pointee(totals.type()), Width()}, {totals + thread * Width()});
  return {
      ir::For{.variable = "earlier",
              .first = 0,
              .condition = earlier < PartNumber(),
              .step = 1,
              .body = {ir::Set(before, ir::CallOf(InfoOf(InstOf(id).op).name, {before, total}))},
              .unroll = kTotalsInFlight}};
}

void CudaBody::LowerTotals(const NestMember& member) {
  SetMember(&member);
  const ScanDepths& depths = totals_->depths();
  for (const Store& store : member.loops.stores) {
    if (depths.Of(member, store.value) < launch_) LowerStoredValue(store);
  }
  for (const NestScan& scan : depths.scans()) {
    if (scan.member == &member && scan.depth == launch_) Lower(scan.inst);
  }
}

void CudaBody::SaveTotals() {
  for (const NestScan& scan : totals_->depths().scans()) {
    if (scan.depth != launch_) continue;
    SetMember(scan.member);
    const Inst& inst = InstOf(scan.inst);
    const ir::Value seen = ScannedBefore(scan.inst), totals = TotalsOf(scan.inst);
    if (plan_.Is<CudaColumns>()) {
      Add(0, ir::Do(ir::CallOf("store", {ir::Pointee(totals.type()), Width()},
                               {totals + ir::IndexVar("unit") * Width(), seen})));
      continue;
    }
    const ir::Value total =
        Define(0, ir::CallOf("group_total", {ir::Value(plan_.G())},
                             {seen, ir::CombinerOf(InfoOf(inst.op).name),
                              ScanIdentityOf(inst.op, inst.dtype), GroupMemory()}));
    Add(0, Once(ir::Set(ir::At(totals, BlockNumber()), total)));
  }
}

ir::Value CudaBody::ScanVector(int id, const ir::Value& vector) {
  const Inst& inst = InstOf(id);
  const ir::Value before = ScannedBefore(id);
  const int level = vector_level();
  const char* const combine = InfoOf(inst.op).name;
  if (plan_.Is<CudaColumns>() || SeeksTotal(id)) {
    const ir::Value prefixes = Define(level, ir::CallOf(combine, {before, vector}));
    Add(level, ir::Set(before, prefixes));
    return prefixes;
  }
  const auto* rows = plan_.As<CudaScanRows>();
  TENSORD_CHECK(rows != nullptr, "a scan in a schedule that knows none");
  const ir::Value identity = ScanIdentityOf(inst.op, inst.dtype);
  ir::Value value = vector;
  if (LooksForVectors(*rows)) {
    value = ir::Choose(VectorExists(), value, ir::CallOf("broadcast", {Width()}, {identity}));
  }
  return Define(level,
                ir::CallOf("group_scan", {ir::Value(plan_.G())},
                           {before, value, ir::CombinerOf(combine), identity, GroupMemory()}));
}

}  // namespace tensord::compiler
