// SPDX-License-Identifier: Apache-2.0
// What library calls allocate for themselves while they run.
#ifndef TENSORD_COMPILER_SCHEDULE_LIBRARY_SCRATCH_H_
#define TENSORD_COMPILER_SCHEDULE_LIBRARY_SCRATCH_H_

#include <cstdint>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Bytes, with sizes at their hints; 0 where nothing is known. Of attention's backward: sums in
// float32 of what is rounded in the end, as torch 2.11 to 2.13 allocate them
// (aten/src/ATen/native/transformers/cuda); of depthwise convolutions' as cuDNN was seen to.
int64_t LibraryScratch(const ExternOp& call);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_LIBRARY_SCRATCH_H_
