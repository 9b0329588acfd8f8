// SPDX-License-Identifier: Apache-2.0
// Whether a pointwise nest is one space of elements to its threads, or has rows.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_POINTWISE_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_POINTWISE_H_

#include "compiler/schedule/cuda/nest_context.h"

namespace tensord::compiler {

// OK where each thread may take any vector of the nest; otherwise why it had better not: something
// is reduced, or groups that keep to rows or to columns do better.
absl::Status MayIgnoreRows(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_POINTWISE_H_
