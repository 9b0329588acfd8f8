// SPDX-License-Identifier: Apache-2.0
// The reductions of a nest, by the numbers that plans call them by.
#ifndef TENSORD_COMPILER_SCHEDULE_NEST_REDUCTIONS_H_
#define TENSORD_COMPILER_SCHEDULE_NEST_REDUCTIONS_H_

#include <vector>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

struct NestReduction {
  const NestMember* member;
  const Reduction* reduction;
  DType dtype;  // of the values that are reduced

  // One result for each column: nothing is reduced along the inner loops.
  bool IsOfColumns() const { return member->has_inner && !member->reduces_inner; }
  // Over the rows: its accumulator outlives units.
  bool IsOverRows() const { return member->reduces_outer; }
};

// Of all members, in their order: the first has number 0.
std::vector<NestReduction> ReductionsOf(const Nest& nest);

// Bytes of one element's state where it lies in memory: several numbers, of some kinds.
int64_t StateBytes(const NestReduction& reduction);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_NEST_REDUCTIONS_H_
