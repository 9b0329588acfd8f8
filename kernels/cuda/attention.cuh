// SPDX-License-Identifier: Apache-2.0
// What a generated kernel of attention includes besides: #include "tensord/cuda/attention.cuh".
#ifndef TENSORD_CUDA_ATTENTION_CUH_
#define TENSORD_CUDA_ATTENTION_CUH_

#include "tensord/cuda/attention_backward.cuh"
#include "tensord/cuda/attention_forward.cuh"

#endif  // TENSORD_CUDA_ATTENTION_CUH_
