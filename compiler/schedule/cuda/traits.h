// SPDX-License-Identifier: Apache-2.0
// What a CUDA nest is like, as far as the plan of its threads depends on that.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_TRAITS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_TRAITS_H_

#include "compiler/schedule/nest.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Nothing is reduced or scanned, and there is one pass.
bool IsPointwise(const Nest& nest);

// Prefixes along the inner loops are taken, so that these run in their order: in the nest, and in
// the pass at `position`.
bool HasScans(const Nest& nest);
bool HasScansAt(const Nest& nest, int position);

// What is computed from scalars alone, the same in every thread of a nest without rows, costs as
// much as several vectors.
bool HasExpensiveScalars(const Nest& nest);

// Rows whose scalars would cost more than a vector, were they computed for each.
bool HasExpensiveRowScalars(const Nest& nest);

// Rows of at least a warp's vectors whose places are found by one load after the other: a thread
// for each vector would wait as long for one of them as for several.
bool GathersRows(const Nest& nest);

// The operands that vary along the vector loop.
int VectorOperands(const Nest& nest);

// The nest reads and writes so much more than the L2 cache holds that nobody finds it there
// afterwards.
bool OverflowsCache(const Program& program, const Nest& nest, const v1::CudaTarget& target);

// Some reduction says where its result is.
bool HasArgReduction(const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_TRAITS_H_
