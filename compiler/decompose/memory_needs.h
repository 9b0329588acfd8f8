// SPDX-License-Identifier: Apache-2.0
// Which values of a graph must be in memory because of those who see their memory.
#ifndef TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_
#define TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_

#include <map>
#include <set>

#include "compiler/decompose/lowering_rules.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

struct MemoryNeeds {
  // Results of the program that are views of one computed value share its memory in eager, so that
  // value must have a buffer before the views are taken.
  std::set<ValueId> shared;
  // What library calls and results want in memory in several shapes, as views of the whole: it is
  // there once.
  std::set<ValueId> in_shapes;
  // Results of the program that are, in eager, the memory of a computed value seen as another type
  // (and back, maybe), where other results share that memory; by result the value, which is in
  // `shared`.
  std::map<ValueId, ValueId> as_other_types;
};

MemoryNeeds FindMemoryNeeds(const Graph& graph, const Uses& uses, const LoweringRules& rules);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_MEMORY_NEEDS_H_
