// SPDX-License-Identifier: Apache-2.0
// Sweeps over rows that sum columns and prefetch the next row.
//
// Sums of columns leave registers for few threads, too few to hide what a row waits for: its loads,
// then the group's reductions, then its stores. So those that there are have the next row's loads
// under way while they work on the present one. Who shares a row, and how many threads a
// multiprocessor has, was measured on an H200 for rows of 64 to 8192 elements of float32 and
// bfloat16, and one to three sums of columns.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_PREFETCHING_SWEEP_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_PREFETCHING_SWEEP_H_

#include <cstdint>
#include <optional>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

struct PrefetchingSweep {
  int threads;   // of a block
  int group;     // of a row
  int resident;  // blocks that a multiprocessor has room for
};

// nullopt where it does not pay. `rows` of `vectors` each; `of_vector`: elements that one of these
// has in all register-resident arrays (register_resident.h).
std::optional<PrefetchingSweep> PlanPrefetchingSweep(const Nest& nest, int64_t rows,
                                                     int64_t vectors, int64_t of_vector,
                                                     int multiprocessors);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_PREFETCHING_SWEEP_H_
