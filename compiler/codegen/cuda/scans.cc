// SPDX-License-Identifier: Apache-2.0
// The scans of a CUDA nest's bodies. What CPU kernels combine in the order of the elements
// (Inst::in_order) is combined so in columns alone: eager's scans of rows are trees here as well.
#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "compiler/codegen/cuda/accumulators.h"
#include "compiler/codegen/cuda/body.h"
#include "compiler/codegen/reductions.h"

namespace tensord::compiler {

bool LooksForVectors(const CudaScanRows& rows) {
  return rows.group.register_vectors == 0 || rows.group.whole_vectors < rows.group.register_vectors;
}

ir::Value VectorExists() { return ir::Var("exists", ir::kBoolType); }

const ir::Value& CudaBody::ScannedBefore(int id) {
  auto [it, is_new] = scanned_.try_emplace({&member(), id});
  if (!is_new) return it->second;
  const Inst& inst = InstOf(id);
  const ir::Value lanes = plan_.Is<CudaColumns>() ? Width() : ir::Value(1);
  const ir::Value start = ir::CallOf("broadcast", {lanes}, {ScanIdentityOf(inst.op, inst.dtype)});
  const std::string name = absl::StrCat("scanned", scanned_.size() - 1);
  it->second = ir::Var(name, start.type());
  Add(0, ir::Mutable(name, start));
  return it->second;
}

ir::Value CudaBody::ScanVector(int id, const ir::Value& vector) {
  const Inst& inst = InstOf(id);
  const ir::Value before = ScannedBefore(id);
  const int level = vector_level();
  const char* const combine = InfoOf(inst.op).name;
  if (plan_.Is<CudaColumns>()) {
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
