// SPDX-License-Identifier: Apache-2.0
// What a generated CUDA kernel includes: #include "tensord/cuda.cuh".
#include "tensord/cuda/cuda.cuh"
