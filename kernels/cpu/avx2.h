// SPDX-License-Identifier: Apache-2.0
// The AVX2 instructions that GCC's vector extensions do not reach, or reach at a price, as
// overloads on native vectors. GCC 12 looks through chains of `a != a ? a : b` at every step, so
// that forty maxima of floats took it seconds: what it cannot look into costs nothing.
#ifndef TENSORD_CPU_AVX2_H_
#define TENSORD_CPU_AVX2_H_

#include "vec.h"

#if TK_AVX2 && !TK_AVX512
namespace tk::avx2 {

typedef float F32 __attribute__((vector_size(32)));
typedef double F64 __attribute__((vector_size(32)));
typedef int I32 __attribute__((vector_size(32)));
typedef int I32h __attribute__((vector_size(16)));
typedef long long I64 __attribute__((vector_size(32)));

// b where either is NaN.
TK_FN F32 max(F32 a, F32 b) { return __builtin_ia32_maxps256(a, b); }
TK_FN F64 max(F64 a, F64 b) { return __builtin_ia32_maxpd256(a, b); }
TK_FN F32 min(F32 a, F32 b) { return __builtin_ia32_minps256(a, b); }
TK_FN F64 min(F64 a, F64 b) { return __builtin_ia32_minpd256(a, b); }

// a where it is NaN, else b.
inline constexpr int kUnordered = 3;
TK_FN F32 nan_or(F32 a, F32 b) {
  return __builtin_ia32_blendvps256(b, a, __builtin_ia32_cmpps256(a, a, kUnordered));
}
TK_FN F64 nan_or(F64 a, F64 b) {
  return __builtin_ia32_blendvpd256(b, a, __builtin_ia32_cmppd256(a, a, kUnordered));
}

TK_FN I32h low_half(I32 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
TK_FN I32h high_half(I32 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }

// Lanes of int32 as those of int64, 0 and -1 as such.
TK_FN I64 widened(I32h v) { return (I64)__builtin_ia32_pmovsxdq256(v); }

// p[i] where lane i is on, else 0; of 4 or 8 bytes, as are the next two.
template <class U>
TK_FN Vec<U, 8> load(const U* p, Mask<8> on) {
  typedef typename Vec<U, 8>::Part P;
  const I32 lanes = (I32)on.lanes.part[0];
  if constexpr (sizeof(U) == 4) {
    return {(P)__builtin_ia32_maskloadd256(reinterpret_cast<const I32*>(p), lanes)};
  } else {
    const auto* const q = reinterpret_cast<const I64*>(p);
    return {(P)__builtin_ia32_maskloadq256(q, widened(low_half(lanes))),
            (P)__builtin_ia32_maskloadq256(q + 1, widened(high_half(lanes)))};
  }
}
template <class U>
TK_FN void store(U* p, Vec<U, 8> v, Mask<8> on) {
  const I32 lanes = (I32)on.lanes.part[0];
  if constexpr (sizeof(U) == 4) {
    __builtin_ia32_maskstored256(reinterpret_cast<I32*>(p), lanes, (I32)v.part[0]);
  } else {
    auto* const q = reinterpret_cast<I64*>(p);
    __builtin_ia32_maskstoreq256(q, widened(low_half(lanes)), (I64)v.part[0]);
    __builtin_ia32_maskstoreq256(q + 1, widened(high_half(lanes)), (I64)v.part[1]);
  }
}
// base[index[i]] where lane i is on, else 0.
template <class U>
TK_FN Vec<U, 8> gather(const U* base, Vec<int64_t, 8> index, Mask<8> on) {
  typedef typename Vec<U, 8>::Part P;
  const I64 first = (I64)index.part[0], second = (I64)index.part[1];
  const I32h low = low_half((I32)on.lanes.part[0]), high = high_half((I32)on.lanes.part[0]);
  if constexpr (sizeof(U) == 8) {
    const auto* const p = reinterpret_cast<const long long*>(base);
    return {(P)__builtin_ia32_gatherdiv4di(I64{}, p, first, widened(low), 8),
            (P)__builtin_ia32_gatherdiv4di(I64{}, p, second, widened(high), 8)};
  } else {
    const auto* const p = reinterpret_cast<const int*>(base);
    const I32h a = __builtin_ia32_gatherdiv4si256(I32h{}, p, first, low, 4);
    const I32h b = __builtin_ia32_gatherdiv4si256(I32h{}, p, second, high, 4);
    return {(P)__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)};
  }
}

}  // namespace tk::avx2
#endif
#endif  // TENSORD_CPU_AVX2_H_
