// SPDX-License-Identifier: Apache-2.0
// What every generated CUDA kernel includes, as "tensord/cuda.cuh". The names and their meaning are
// those of the CPU prelude (kernels/cpu); here one thread holds a Vec<T, W> of W consecutive
// elements in registers, W = 1, 2, 4, 8 or 16. Floats that are smaller than 32 bits are loaded as
// float.
//
//   const int i = (blockIdx.x * blockDim.x + threadIdx.x) * W;
//   const auto x = tk::load<tk::half, W>(p + i);
//   const auto y = tk::mul(tk::tanh(x), tk::broadcast<W>(0.5f));
//   tk::store<tk::half, W>(q + i, y);
//
// No header of the host or of the CUDA toolkit is included: NVRTC needs nothing but these files,
// and parses them in milliseconds. What PTX alone can say is in ptx.cuh. The tests compile all the
// rest as plain C++.
//
// types.cuh      storage types, Compute<S>, index arithmetic
// vec.cuh        Vec, Mask, broadcast, iota, bitcast, operators
// mask.cuh       comparisons, where
// convert.cuh    cast, round_to
// memory.cuh     load*, gather*, store*, scatter*
// arith.cuh      rounding, division, bits
// math.cuh       elementary functions
// special.cuh    what CUDA's library lacks
// random.cuh     Philox: uniform, normal, integers
// reduce.cuh     across the lanes of a thread; argmax, Welford, online softmax
// group.cuh      across threads: parts of a warp, a block
// last_block.cuh which of several blocks comes last
// atomic.cuh     accumulating scatter
// index.cuh      indices from data, checked
// checked.cuh    numbers from data that eager refuses
// generated.cuh  what the code generator relies on besides
// scan.cuh       prefix sums in a group, and over a grid in one pass
// tile.cuh       operands that lie across the vector loop, through shared memory
//
// Kernels of attention alone include attention.cuh besides, of whose PTX the tests replace
// warpgroup.cuh.
#ifndef TENSORD_CUDA_CUDA_CUH_
#define TENSORD_CUDA_CUDA_CUH_

#include "tensord/cuda/arith.cuh"
#include "tensord/cuda/atomic.cuh"
#include "tensord/cuda/checked.cuh"
#include "tensord/cuda/generated.cuh"
#include "tensord/cuda/group.cuh"
#include "tensord/cuda/index.cuh"
#include "tensord/cuda/last_block.cuh"
#include "tensord/cuda/math.cuh"
#include "tensord/cuda/memory.cuh"
#include "tensord/cuda/random.cuh"
#include "tensord/cuda/reduce.cuh"
#include "tensord/cuda/scan.cuh"
#include "tensord/cuda/tile.cuh"

#endif  // TENSORD_CUDA_CUDA_CUH_
