// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/prepare_nest.h"

namespace tensord::compiler {

Nest PrepareCpuNest(Nest nest) {
  if (nest.shape != NestShape::kFlat) return nest;
  if (nest.inner.size() > 1) {
    nest.shape = NestShape::kTiled;
    nest.outer.assign(nest.inner.begin(), nest.inner.end() - 1);
    nest.inner.erase(nest.inner.begin(), nest.inner.end() - 1);
  }
  for (NestMember& member : nest.members) member.reduces_outer = member.reduces_inner;
  return nest;
}

}  // namespace tensord::compiler
