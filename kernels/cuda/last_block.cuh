// SPDX-License-Identifier: Apache-2.0
// Which of several blocks is the last to get somewhere: it combines what all have left in memory.
// After the threadFenceReduction sample of the CUDA toolkit.
#ifndef TENSORD_CUDA_LAST_BLOCK_CUH_
#define TENSORD_CUDA_LAST_BLOCK_CUH_

#include "tensord/cuda/types.cuh"

namespace tk {

// For all threads of a block, once: true in the block that is the last of `blocks` that share the
// counter. There, what the others wrote before they called this can be read. The counter is 0
// before the first block comes, and 0 again after the last.
TK_FN bool is_last_block(unsigned* counter, int blocks) {
  __syncthreads();  // all threads have written
  bool last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(counter, unsigned(blocks - 1)) == unsigned(blocks - 1);
    __threadfence();
  }
  return __syncthreads_or(last) != 0;
}

}  // namespace tk

#endif  // TENSORD_CUDA_LAST_BLOCK_CUH_
