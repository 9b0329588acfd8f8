// SPDX-License-Identifier: Apache-2.0
// Which values of a graph must be in memory because of those who see their memory.
#ifndef TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_
#define TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_

#include <map>
#include <set>

#include "compiler/decompose/lowering_rules.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

// What a result shows in eager: the value whose memory it is, and whether that is seen as another
// type on the way.
struct Shown {
  ValueId memory;
  bool is_reinterpreted = false;
};

struct MemoryNeeds {
  // Results of the program that are views of one computed value share its memory in eager, so that
  // value must have a buffer before the views are taken.
  std::set<ValueId> shared;
  // What library calls and results want in memory in several shapes, or calls expanded, as views of
  // the whole: it is there once.
  std::set<ValueId> in_shapes;
  // Results of the program that are, in eager, memory of an input, or of a computed value that
  // other results show as well (it is in `shared`), maybe seen as another type.
  std::map<ValueId, Shown> shown;
};

MemoryNeeds FindMemoryNeeds(const Graph& graph, const Uses& uses, const LoweringRules& rules);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_
