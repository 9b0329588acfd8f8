// SPDX-License-Identifier: Apache-2.0
// The AVX-512 instructions that GCC's vector extensions do not reach, as overloads on native
// vectors.
// (<immintrin.h> takes ten times as long to parse as the whole prelude.)
#ifndef TENSORD_CPU_AVX512_H_
#define TENSORD_CPU_AVX512_H_

#include "types.h"

#if TK_AVX512
namespace tk::avx512 {

typedef float F32 __attribute__((vector_size(64)));
typedef float F32h __attribute__((vector_size(32)));
typedef double F64 __attribute__((vector_size(64)));
typedef int I32 __attribute__((vector_size(64)));
typedef int I32h __attribute__((vector_size(32)));
typedef long long I64 __attribute__((vector_size(64)));
typedef char I8 __attribute__((vector_size(16)));
typedef short I16 __attribute__((vector_size(32)));

// The lane type that the builtins want for T.
template <class T>
struct Lane;
template <>
struct Lane<float> {
  typedef F32 V;
};
template <>
struct Lane<double> {
  typedef F64 V;
};
template <>
struct Lane<int8_t> {
  typedef I8 V;
};
template <>
struct Lane<uint8_t> {
  typedef I8 V;
};
template <>
struct Lane<int16_t> {
  typedef I16 V;
};
template <>
struct Lane<uint16_t> {
  typedef I16 V;
};
template <>
struct Lane<int32_t> {
  typedef I32 V;
};
template <>
struct Lane<uint32_t> {
  typedef I32 V;
};
template <>
struct Lane<int64_t> {
  typedef I64 V;
};
template <>
struct Lane<uint64_t> {
  typedef I64 V;
};

// Masks stay in mask registers: two bytes are joined and parted by instructions of those, not by
// arithmetic. GCC 12 can spill a byte of mask and read back four when a comparison of 64-bit lanes
// is widened to an int (a register-pressure matter: loops with calls show it).
TK_FN uint16_t join_masks(uint16_t low, uint16_t high) {
  return __builtin_ia32_kunpckhi(high, low);
}
template <int Part>
TK_FN uint16_t part_of_mask(uint16_t on) {
  if constexpr (Part == 0)
    return on;
  else
    return __builtin_ia32_kshiftrihi(on, 8 * Part);
}

inline constexpr int kRoundCurrent = 4;
enum Order { kEq, kNe, kLt, kLe };
inline constexpr int kFloatPredicate[] = {0x00, 0x04, 0x11, 0x12};  // quiet
inline constexpr int kIntPredicate[] = {0, 4, 1, 2};

// A bit per lane where `a order b`; T decides signedness.
template <class T, Order O, class P>
TK_FN uint16_t compare(P a, P b) {
  using V = typename Lane<T>::V;
  const V x = __builtin_bit_cast(V, a), y = __builtin_bit_cast(V, b);
  constexpr int f = kFloatPredicate[O], i = kIntPredicate[O];
  constexpr bool s = kIsSigned<T>;
  if constexpr (kSame<T, float>)
    return __builtin_ia32_cmpps512_mask(x, y, f, -1, kRoundCurrent);
  else if constexpr (kSame<T, double>)
    return (uint8_t)__builtin_ia32_cmppd512_mask(x, y, f, -1, kRoundCurrent);
  else if constexpr (sizeof(T) == 1 && s)
    return __builtin_ia32_cmpb128_mask(x, y, i, -1);
  else if constexpr (sizeof(T) == 1)
    return __builtin_ia32_ucmpb128_mask(x, y, i, -1);
  else if constexpr (sizeof(T) == 2 && s)
    return __builtin_ia32_cmpw256_mask(x, y, i, -1);
  else if constexpr (sizeof(T) == 2)
    return __builtin_ia32_ucmpw256_mask(x, y, i, -1);
  else if constexpr (sizeof(T) == 4 && s)
    return __builtin_ia32_cmpd512_mask(x, y, i, -1);
  else if constexpr (sizeof(T) == 4)
    return __builtin_ia32_ucmpd512_mask(x, y, i, -1);
  else if constexpr (s)
    return (uint8_t)__builtin_ia32_cmpq512_mask(x, y, i, -1);
  else
    return (uint8_t)__builtin_ia32_ucmpq512_mask(x, y, i, -1);
}

// Per lane: on ? a : b.
template <class T, class P>
TK_FN P blend(uint16_t on, P a, P b) {
  using V = typename Lane<T>::V;
  const V x = __builtin_bit_cast(V, a), y = __builtin_bit_cast(V, b);
  V r;
  if constexpr (kSame<T, float>)
    r = __builtin_ia32_blendmps_512_mask(y, x, on);
  else if constexpr (kSame<T, double>)
    r = __builtin_ia32_blendmpd_512_mask(y, x, on);
  else if constexpr (sizeof(T) == 1)
    r = __builtin_ia32_blendmb_128_mask(y, x, on);
  else if constexpr (sizeof(T) == 2)
    r = __builtin_ia32_blendmw_256_mask(y, x, on);
  else if constexpr (sizeof(T) == 4)
    r = __builtin_ia32_blendmd_512_mask(y, x, on);
  else
    r = __builtin_ia32_blendmq_512_mask(y, x, on);
  return __builtin_bit_cast(P, r);
}

// Unaligned masked loads and stores of unsigned integers; lanes that are off are 0 and not touched.
template <class U, class P>
TK_FN P load(const U* p, uint16_t on) {
  using V = typename Lane<U>::V;
  const V zero = {};
  V r;
  if constexpr (sizeof(U) == 1)
    r = __builtin_ia32_loaddquqi128_mask((const char*)p, zero, on);
  else if constexpr (sizeof(U) == 2)
    r = __builtin_ia32_loaddquhi256_mask((const short*)p, zero, on);
  else if constexpr (sizeof(U) == 4)
    r = __builtin_ia32_loaddqusi512_mask((const int*)p, zero, on);
  else
    r = __builtin_ia32_loaddqudi512_mask((const long long*)p, zero, on);
  return __builtin_bit_cast(P, r);
}
template <class U, class P>
TK_FN void store(U* p, P v, uint16_t on) {
  using V = typename Lane<U>::V;
  const V x = __builtin_bit_cast(V, v);
  if constexpr (sizeof(U) == 1)
    __builtin_ia32_storedquqi128_mask((char*)p, x, on);
  else if constexpr (sizeof(U) == 2)
    __builtin_ia32_storedquhi256_mask((short*)p, x, on);
  else if constexpr (sizeof(U) == 4)
    __builtin_ia32_storedqusi512_mask((int*)p, x, on);
  else
    __builtin_ia32_storedqudi512_mask((long long*)p, x, on);
}

// Halves by builtin: GCC 12 can fail (in PRE) on a half of a broadcast made by
// __builtin_shufflevector.
TK_FN I32h low(I32 v) { return __builtin_ia32_extracti32x8_mask(v, 0, I32h{}, -1); }
TK_FN I32h high(I32 v) { return __builtin_ia32_extracti32x8_mask(v, 1, I32h{}, -1); }
TK_FN F32h low(F32 v) { return __builtin_ia32_extractf32x8_mask(v, 0, F32h{}, -1); }
TK_FN F32h high(F32 v) { return __builtin_ia32_extractf32x8_mask(v, 1, F32h{}, -1); }
TK_FN I32 join(I32h a, I32h b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TK_FN F32 join(F32h a, F32h b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

TK_FN F64 widen(F32h v) { return __builtin_ia32_cvtps2pd512_mask(v, F64{}, -1, kRoundCurrent); }
TK_FN F32h narrow(F64 v) { return __builtin_ia32_cvtpd2ps512_mask(v, F32h{}, -1, kRoundCurrent); }
TK_FN I64 widen(I32h v) { return __builtin_ia32_pmovsxdq512_mask(v, I64{}, -1); }
TK_FN I64 widen_unsigned(I32h v) { return __builtin_ia32_pmovzxdq512_mask(v, I64{}, -1); }
TK_FN I32h narrow(I64 v) { return __builtin_ia32_pmovqd512_mask(v, I32h{}, -1); }
TK_FN F32h to_float(I64 v) { return __builtin_ia32_cvtqq2ps512_mask(v, F32h{}, -1, kRoundCurrent); }
TK_FN I64 truncate(F32h v) { return __builtin_ia32_cvttps2qq512_mask(v, I64{}, -1, kRoundCurrent); }
TK_FN F64 widen_to_double(I32h v) { return __builtin_ia32_cvtdq2pd512_mask(v, F64{}, -1); }
template <bool Signed>
TK_FN I32 widen_to_int(I16 v) {
  if constexpr (Signed)
    return __builtin_ia32_pmovsxwd512_mask(v, I32{}, -1);
  else
    return __builtin_ia32_pmovzxwd512_mask(v, I32{}, -1);
}
template <bool Signed>
TK_FN I32 widen_to_int(I8 v) {
  if constexpr (Signed)
    return __builtin_ia32_pmovsxbd512_mask(v, I32{}, -1);
  else
    return __builtin_ia32_pmovzxbd512_mask(v, I32{}, -1);
}
TK_FN I16 narrow_int(I32 v, I16 zero) { return __builtin_ia32_pmovdw512_mask(v, zero, -1); }
TK_FN I8 narrow_int(I32 v, I8 zero) { return __builtin_ia32_pmovdb512_mask(v, zero, -1); }

// a * 2^floor(b), with overflow, underflow and infinities as IEEE has them.
TK_FN F32 scale(F32 a, F32 b) {
  return __builtin_ia32_scalefps512_mask(a, b, F32{}, -1, kRoundCurrent);
}
TK_FN F64 scale(F64 a, F64 b) {
  return __builtin_ia32_scalefpd512_mask(a, b, F64{}, -1, kRoundCurrent);
}
// Estimates with a relative error of at most 2^-14.
TK_FN F32 reciprocal14(F32 a) { return __builtin_ia32_rcp14ps512_mask(a, F32{}, -1); }
TK_FN F32 rsqrt14(F32 a) { return __builtin_ia32_rsqrt14ps512_mask(a, F32{}, -1); }

// Rounding modes: 0 to nearest even, 1 down, 2 up, 3 towards zero; 8: no inexact exception.
template <int Mode>
TK_FN F32 round(F32 a) {
  return __builtin_ia32_rndscaleps_mask(a, Mode | 8, F32{}, -1, kRoundCurrent);
}
template <int Mode>
TK_FN F64 round(F64 a) {
  return __builtin_ia32_rndscalepd_mask(a, Mode | 8, F64{}, -1, kRoundCurrent);
}
TK_FN F32 min(F32 a, F32 b) { return __builtin_ia32_minps512_mask(a, b, F32{}, -1, kRoundCurrent); }
TK_FN F32 max(F32 a, F32 b) { return __builtin_ia32_maxps512_mask(a, b, F32{}, -1, kRoundCurrent); }
TK_FN F64 min(F64 a, F64 b) { return __builtin_ia32_minpd512_mask(a, b, F64{}, -1, kRoundCurrent); }
TK_FN F64 max(F64 a, F64 b) { return __builtin_ia32_maxpd512_mask(a, b, F64{}, -1, kRoundCurrent); }
TK_FN F32 fma(F32 a, F32 b, F32 c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, kRoundCurrent);
}
TK_FN F64 fma(F64 a, F64 b, F64 c) {
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, kRoundCurrent);
}
TK_FN F32 sqrt(F32 a) { return __builtin_ia32_sqrtps512_mask(a, F32{}, -1, kRoundCurrent); }
TK_FN F64 sqrt(F64 a) { return __builtin_ia32_sqrtpd512_mask(a, F64{}, -1, kRoundCurrent); }

// table[index % 16] and table[index % 32].
TK_FN F32 look_up16(F32 table, I32 index) {
  return __builtin_ia32_permvarsf512_mask(table, index, F32{}, -1);
}
TK_FN F32 look_up32(F32 low, F32 high, I32 index) {
  return __builtin_ia32_vpermt2varps512_mask(index, low, high, -1);
}

}  // namespace tk::avx512
#endif  // TK_AVX512

#endif  // TENSORD_CPU_AVX512_H_
