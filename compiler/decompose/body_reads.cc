// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/body_reads.h"

namespace tensord::compiler {

std::vector<Expr> LoopIndex(const Sizes& sizes) {
  std::vector<Expr> index;
  for (const Expr& size : sizes) index.push_back(Expr::Loop(static_cast<int>(index.size()), size));
  return index;
}

BodyReads ReadsOf(const Tensor& t) {
  Block block;
  Recorder ops(&block);
  for (int part = 0; part < (IsComplex(t.dtype()) ? 2 : 1); ++part) {
    const PartScope scope(ops, part);
    t.Load(ops, LoopIndex(t.sizes()));
  }
  BodyReads reads;
  for (const Inst& inst : block.insts) {
    if (inst.kind != InstKind::kLoad) continue;
    reads.buffers.insert(inst.buffer);
    reads.indices.emplace_back(inst.buffer, inst.index);
  }
  return reads;
}

}  // namespace tensord::compiler
