// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/prepare_nest.h"

#include <algorithm>

#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

bool WantsRows(const Program& program, const Nest& nest) {
  if (nest.inner.size() < 2 || !IsPointwise(nest)) return false;
  const Widths widths = ChooseWidths(program, nest);
  return widths.prefers_columns || HasExpensiveRowScalars(nest) || IsRare(nest) ||
         GathersRows(nest) ||
         (AreWiderWithinRows(widths) && sym::Hint(nest.inner.back()) >= kLeastLongRow);
}

}  // namespace

Nest PrepareCudaNest(const Program& program, Nest nest) {
  const auto first = std::stable_partition(nest.members.begin(), nest.members.end(),
                                           [](const NestMember& m) { return m.has_outer; });
  nest.after.assign(first, nest.members.end());
  nest.members.erase(first, nest.members.end());
  if (nest.shape != NestShape::kFlat) return nest;
  for (NestMember& member : nest.members) member.reduces_outer = member.reduces_inner;
  if (!WantsRows(program, nest)) return nest;
  nest.outer.assign(nest.inner.begin(), nest.inner.end() - 1);
  nest.inner.erase(nest.inner.begin(), nest.inner.end() - 1);
  nest.shape = NestShape::kTiled;
  return nest;
}

}  // namespace tensord::compiler
