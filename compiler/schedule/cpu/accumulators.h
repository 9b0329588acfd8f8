// SPDX-License-Identifier: Apache-2.0
// How many accumulators a reduction's vector loop has, so that one step need not wait for the
// other.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_ACCUMULATORS_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_ACCUMULATORS_H_

#include <map>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// By the position of a pass, where it is more than one. `extent`: steps of the vector loop in
// elements, as far as known.
std::map<int, int> CountAccumulatorCopies(const Nest& nest, int lanes, int64_t extent);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_ACCUMULATORS_H_
