// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/loads.h"

namespace tensord::compiler {

std::vector<Expr> LoopIndex(const Sizes& sizes) {
  std::vector<Expr> index;
  for (const Expr& size : sizes) index.push_back(Expr::Loop(static_cast<int>(index.size()), size));
  return index;
}

Loads LoadsOf(const Tensor& t) {
  Block block;
  Recorder ops(&block);
  t.Load(ops, LoopIndex(t.sizes()));
  Loads loads;
  for (const Inst& inst : block.insts) {
    if (inst.kind != InstKind::kLoad) continue;
    loads.buffers.insert(inst.buffer);
    loads.indices.emplace_back(inst.buffer, inst.index);
  }
  return loads;
}

}  // namespace tensord::compiler
