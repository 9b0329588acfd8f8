// SPDX-License-Identifier: Apache-2.0
// Read-modify-write of single elements that several threads may hit: accumulating scatters. The
// order of additions is not fixed, so float sums may differ from run to run.
#ifndef TENSORD_CUDA_ATOMIC_CUH_
#define TENSORD_CUDA_ATOMIC_CUH_

#include "tensord/cuda/memory.cuh"

namespace tk {

namespace impl {
// By compare and exchange on the aligned word around *p, for what no instruction adds. Called: a
// loop per lane would be long.
template <class S>
TK_CALL void atomic_add_in_word(S* p, Compute<S> x) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(p);
  unsigned* const word = reinterpret_cast<unsigned*>(address & ~3ull);
  const int shift = int(address & 3) * 8;
  constexpr unsigned kMask = (1u << 8 * sizeof(S)) - 1;
  unsigned old = *static_cast<volatile unsigned*>(word), seen;
  do {
    seen = old;
    const Compute<S> before = scalar::decode<S>(Bits<S>(old >> shift & kMask));
    const unsigned sum = scalar::encode<S>(Compute<S>(before + x));
    old = atomicCAS(word, seen, (seen & ~(kMask << shift)) | sum << shift);
  } while (old != seen);
}
}  // namespace impl

// *p += x, in global memory. Truth values: or.
template <class S>
TK_FN void atomic_add(S* p, Compute<S> x) {
  if constexpr (kSame<S, bool>) {
    if (x) store_scalar(p, true);  // all that write, write the same
  } else if constexpr (kSame<S, half>) {
    ptx::add_half(p, ptx::float_to_half(x));
#if TK_HAS_BFLOAT16_ADD
  } else if constexpr (kSame<S, bfloat16>) {
    ptx::add_bfloat16(p, ptx::float_to_bfloat16(x));
#endif
  } else if constexpr (sizeof(S) < 4) {
    impl::atomic_add_in_word(p, x);
  } else if constexpr (kIsFloat<S>) {
    atomicAdd(p, x);
  } else if constexpr (sizeof(S) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(x));
  } else {
    atomicAdd(reinterpret_cast<unsigned*>(p), unsigned(x));
  }
}
// base[index[i]] += v[i] where on, each indivisibly.
template <class S, int W, class I>
TK_FN void scatter_add(S* base, Vec<I, W> index, Vec<Compute<S>, W> v, Mask<W> on) {
  TK_EACH(i) if (on.at[i]) atomic_add(base + index.at[i], v.at[i]);
}
// p[i] += v[i] where on; p as for a vector store.
template <class S, int W>
TK_FN void scatter_add_run(S* p, Vec<Compute<S>, W> v, Mask<W> on) {
#if TK_HAS_VECTOR_ADD
  if constexpr (kSame<S, float> && W >= 2) {
    if (mask_all(on)) {
      if constexpr (W == 2) {
        ptx::add_float2(p, v.at[0], v.at[1]);
      } else {
#pragma unroll
        for (int i = 0; i < W; i += 4)
          ptx::add_float4(p + i, v.at[i], v.at[i + 1], v.at[i + 2], v.at[i + 3]);
      }
      return;
    }
  }
#endif
  TK_EACH(i) if (on.at[i]) atomic_add(p + i, v.at[i]);
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATOMIC_CUH_
