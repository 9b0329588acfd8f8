// SPDX-License-Identifier: Apache-2.0
// Indices that come from data: what is out of range is reported to the runtime, which fails the
// call, and brought into range, so that the kernel ends in order.
//
// An index in range costs a subtraction, an or and a branch. No function is called where one is
// not: a call would take the registers of the loop around it.
#ifndef TENSORD_CPU_INDEX_H_
#define TENSORD_CPU_INDEX_H_

#include "arith.h"
#include "fault.h"

namespace tk {

// Negative where an index is not in [0, size).
template <int W>
TK_FN Vec<int64_t, W> index_excess(Vec<int64_t, W> index, int64_t size) {
  return index | (broadcast<W>(size - 1) - index);
}

template <int W>
TK_FN bool any_negative(Vec<int64_t, W> v) {
  using V = Vec<int64_t, W>;
  auto all = v.part[0];
  if constexpr (V::kParts > 1) TK_EACH_PART(p, V, all |= v.part[p];);
  if constexpr (W == 1) {
    return all < 0;
#if TK_AVX512
  } else if constexpr (kBitMask<W>) {
    return avx512::compare<int64_t, avx512::kLt>(all, all ^ all) != 0;
#elif TK_AVX2
  } else if constexpr (sizeof(all) == 32) {
    typedef double V4 __attribute__((vector_size(32)));
    return __builtin_ia32_movmskpd256(__builtin_bit_cast(V4, all)) != 0;
#endif
  } else {
    return mask_any(lt(v, broadcast<W>(int64_t(0))));
  }
}

// index + size where it is negative.
template <int W>
TK_FN Vec<int64_t, W> index_from_end(Vec<int64_t, W> index, int64_t size) {
  using V = Vec<int64_t, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = index.part[p] + ((index.part[p] >> 63) & size););
  return r;
}

// Says which index is out of range, unless another has been said before.
template <int W>
TK_FN void report_index(const TensordKernelArgs* args, Vec<int64_t, W> index, Mask<W> bad,
                        int64_t size, int dimension) {
  TensordFault* const fault = claim_fault(args, TENSORD_FAULT_INDEX);
  if (fault == nullptr) return;
  fault->index = to_lanes(index).at[__builtin_ctz(mask_bits(bad))];
  fault->size = size;
  fault->dimension = dimension;
}

// `found` in [0, size), where it is made of `index` as it was given.
template <int W>
TK_FN Vec<int64_t, W> index_in_range(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                     Vec<int64_t, W> found, int64_t size, int dimension) {
  const Vec<int64_t, W> excess = index_excess(found, size);
  if (any_negative(excess)) [[unlikely]] {
    const Vec<int64_t, W> zero = broadcast<W>(int64_t(0));
    report_index(args, index, lt(excess, zero), size, dimension);
    found = maximum(minimum(found, broadcast<W>(size - 1)), zero);
  }
  return found;
}
// The same; only lanes that are on are reported.
template <int W>
TK_FN Vec<int64_t, W> index_in_range(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                     Vec<int64_t, W> found, int64_t size, int dimension,
                                     Mask<W> on) {
  const Vec<int64_t, W> excess = index_excess(found, size);
  if (any_negative(excess)) [[unlikely]] {
    const Vec<int64_t, W> zero = broadcast<W>(int64_t(0));
    const Mask<W> bad = lt(excess, zero) & on;
    if (mask_any(bad)) report_index(args, index, bad, size, dimension);
    found = maximum(minimum(found, broadcast<W>(size - 1)), zero);
  }
  return found;
}

// --- what kernels call; dimension: as in TensordFault

template <int W>
TK_FN Vec<int64_t, W> checked_index(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                    int64_t size, int dimension) {
  return index_in_range(args, index, index, size, dimension);
}
template <int W>
TK_FN Vec<int64_t, W> checked_index(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                    int64_t size, int dimension, Mask<W> on) {
  return index_in_range(args, index, index, size, dimension, on);
}
// Negative indices count from the end.
template <int W>
TK_FN Vec<int64_t, W> wrapped_index(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                    int64_t size, int dimension) {
  return index_in_range(args, index, index_from_end(index, size), size, dimension);
}
template <int W>
TK_FN Vec<int64_t, W> wrapped_index(const TensordKernelArgs* args, Vec<int64_t, W> index,
                                    int64_t size, int dimension, Mask<W> on) {
  return index_in_range(args, index, index_from_end(index, size), size, dimension, on);
}

}  // namespace tk

#endif  // TENSORD_CPU_INDEX_H_
