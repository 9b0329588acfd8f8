// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/nest_reductions.h"

#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {

std::vector<NestReduction> ReductionsOf(const Nest& nest) {
  std::vector<NestReduction> all;
  for (const NestMember& member : nest.members) {
    for (const Reduction& reduction : member.loops.reductions) {
      const DType dtype = member.loops.block.insts[static_cast<size_t>(reduction.value)].dtype;
      all.push_back({.member = &member, .reduction = &reduction, .dtype = dtype});
    }
  }
  return all;
}

int64_t StateBytes(const NestReduction& reduction) {
  const ReduceKind kind = reduction.reduction->kind;
  const int64_t size = ItemSize(ComputeType(reduction.dtype));
  if (kind == ReduceKind::kWelford) return 3 * size;
  if (kind == ReduceKind::kOnlineSoftmax) return 2 * size;
  return IsArg(kind) ? 16 : size;
}

}  // namespace tensord::compiler
