// SPDX-License-Identifier: Apache-2.0
// Arithmetic, rounding, division, bits and logic: what needs no approximation.
#ifndef TENSORD_CPU_ARITH_H_
#define TENSORD_CPU_ARITH_H_

#include "avx2.h"
#include "convert.h"

namespace tk {

// --- by operators

template <class T, int W>
TK_FN Vec<T, W> add(Vec<T, W> a, Vec<T, W> b) {
  return a + b;
}
template <class T, int W>
TK_FN Vec<T, W> sub(Vec<T, W> a, Vec<T, W> b) {
  return a - b;
}
template <class T, int W>
TK_FN Vec<T, W> mul(Vec<T, W> a, Vec<T, W> b) {
  return a * b;
}
template <class T, int W>
TK_FN Vec<T, W> neg(Vec<T, W> a) {
  return -a;
}
// On masks: or, xor, and.
template <int W>
TK_FN Mask<W> add(Mask<W> a, Mask<W> b) {
  return a | b;
}
template <int W>
TK_FN Mask<W> sub(Mask<W> a, Mask<W> b) {
  return a ^ b;
}
template <int W>
TK_FN Mask<W> mul(Mask<W> a, Mask<W> b) {
  return a & b;
}

template <class T, int W>
TK_FN Vec<T, W> bitwise_and(Vec<T, W> a, Vec<T, W> b) {
  return a & b;
}
template <class T, int W>
TK_FN Vec<T, W> bitwise_or(Vec<T, W> a, Vec<T, W> b) {
  return a | b;
}
template <class T, int W>
TK_FN Vec<T, W> bitwise_xor(Vec<T, W> a, Vec<T, W> b) {
  return a ^ b;
}
template <class T, int W>
TK_FN Vec<T, W> bitwise_not(Vec<T, W> a) {
  return ~a;
}

// Of any type: what is not 0 is true.
template <class T, int W>
TK_FN Mask<W> logical_not(Vec<T, W> a) {
  return ~cast<bool>(a);
}
template <class T, int W>
TK_FN Mask<W> logical_and(Vec<T, W> a, Vec<T, W> b) {
  return cast<bool>(a) & cast<bool>(b);
}
template <class T, int W>
TK_FN Mask<W> logical_or(Vec<T, W> a, Vec<T, W> b) {
  return cast<bool>(a) | cast<bool>(b);
}
template <class T, int W>
TK_FN Mask<W> logical_xor(Vec<T, W> a, Vec<T, W> b) {
  return cast<bool>(a) ^ cast<bool>(b);
}

// a*b + c; floats round once, but on a machine without FMA. By builtin, for GCC contracts a*b + c
// only where it sees no other use of a*b.
template <class T, int W>
TK_FN Vec<T, W> fma(Vec<T, W> a, Vec<T, W> b, Vec<T, W> c) {
  using V = Vec<T, W>;
  V r = c;
#if TK_AVX512
  if constexpr (W == 16 && kIsFloat<T>) {
    TK_EACH_PART(p, V, r.part[p] = avx512::fma(a.part[p], b.part[p], c.part[p]););
    return r;
  }
#endif
#if TK_AVX2
  if constexpr (V::kPartLanes * sizeof(T) == 32 && kSame<T, float>) {
    TK_EACH_PART(p, V, r.part[p] = __builtin_ia32_vfmaddps256(a.part[p], b.part[p], c.part[p]););
    return r;
  }
  if constexpr (V::kPartLanes * sizeof(T) == 32 && kSame<T, double>) {
    TK_EACH_PART(p, V, r.part[p] = __builtin_ia32_vfmaddpd256(a.part[p], b.part[p], c.part[p]););
    return r;
  }
  if constexpr (W == 1 && kSame<T, float>) return {__builtin_fmaf(a.part[0], b.part[0], c.part[0])};
  if constexpr (W == 1 && kSame<T, double>) return {__builtin_fma(a.part[0], b.part[0], c.part[0])};
#endif
  return a * b + r;
}

// --- sign and magnitude

template <class T>
inline constexpr Bits<T> kSignBit = Bits<T>(Bits<T>(1) << (sizeof(T) * 8 - 1));

template <class T, int W>
TK_FN Mask<W> isnan(Vec<T, W> a) {
  if constexpr (kIsFloat<T>)
    return ne(a, a);
  else
    return broadcast<W>(false);
}
template <class T, int W>
TK_FN Vec<T, W> abs(Vec<T, W> a) {
  if constexpr (kIsFloat<T>)
    return bitcast<T>(bitcast<Bits<T>>(a) & broadcast<W>(Bits<T>(~kSignBit<T>)));
  else if constexpr (kIsSigned<T>)
    return where(lt(a, like(a, T(0))), -a, a);
  else
    return a;
}
template <class T, int W>
TK_FN Mask<W> isinf(Vec<T, W> a) {
  if constexpr (kIsFloat<T>)
    return eq(abs(a), broadcast<W>(infinity<T>()));
  else
    return broadcast<W>(false);
}
// The bit pattern of the sign: 0 or kSignBit.
template <class T, int W>
TK_FN Vec<Bits<T>, W> sign_bits(Vec<T, W> a) {
  return bitcast<Bits<T>>(a) & broadcast<W>(kSignBit<T>);
}
// a with its sign turned where `sign` has the bit.
template <class T, int W>
TK_FN Vec<T, W> flip_sign(Vec<T, W> a, Vec<Bits<T>, W> sign) {
  return bitcast<T>(bitcast<Bits<T>>(a) ^ sign);
}
template <class T, int W>
TK_FN Vec<T, W> copysign(Vec<T, W> a, Vec<T, W> b) {
  return bitcast<T>(bitcast<Bits<T>>(abs(a)) | sign_bits(b));
}
// -1, 0 or 1; 0 for NaN, as PyTorch.
template <class T, int W>
TK_FN Vec<T, W> sign(Vec<T, W> a) {
  const Vec<T, W> zero = like(a, T(0)), one = like(a, T(1));
  Vec<T, W> r = where(gt(a, zero), one, zero);
  if constexpr (kIsSigned<T>) r = where(lt(a, zero), -one, r);
  return r;
}
// NaN stays NaN.
template <class T, int W>
TK_FN Vec<T, W> relu(Vec<T, W> a) {
  const Vec<T, W> zero = like(a, T(0));
  return where(lt(a, zero), zero, a);
}

// NaN in either operand gives NaN.
template <class T, int W>
TK_FN Vec<T, W> minimum(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kSame<T, bool>) return a & b;
#if TK_AVX512
  else if constexpr (kIsFloat<T> && W == 16) {
    using V = Vec<T, W>;
    V r;  // MINPS gives b where either is NaN
    TK_EACH_PART(p, V, r.part[p] = avx512::min(a.part[p], b.part[p]););
    return where(ne(a, a), a, r);
  }
#elif TK_AVX2
  else if constexpr (kIsFloat<T> && W == 8) {
    using V = Vec<T, W>;
    V r;
    TK_EACH_PART(p, V, r.part[p] = avx2::nan_or(a.part[p], avx2::min(a.part[p], b.part[p])););
    return r;
  }
#endif
  else
    return where(lt(a, b) | isnan(a), a, b);
}
template <class T, int W>
TK_FN Vec<T, W> maximum(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kSame<T, bool>) return a | b;
#if TK_AVX512
  else if constexpr (kIsFloat<T> && W == 16) {
    using V = Vec<T, W>;
    V r;
    TK_EACH_PART(p, V, r.part[p] = avx512::max(a.part[p], b.part[p]););
    return where(ne(a, a), a, r);
  }
#elif TK_AVX2
  else if constexpr (kIsFloat<T> && W == 8) {
    using V = Vec<T, W>;
    V r;
    TK_EACH_PART(p, V, r.part[p] = avx2::nan_or(a.part[p], avx2::max(a.part[p], b.part[p])););
    return r;
  }
#endif
  else
    return where(gt(a, b) | isnan(a), a, b);
}

// --- rounding
// Integers are returned as they are.

#if TK_AVX512
#define TK_ROUND_512(mode)                                           \
  if constexpr (W == 16) {                                           \
    using V = Vec<T, W>;                                             \
    V r;                                                             \
    TK_EACH_PART(p, V, r.part[p] = avx512::round<mode>(a.part[p]);); \
    return r;                                                        \
  }
#else
#define TK_ROUND_512(mode)
#endif
#if TK_AVX2
#define TK_ROUND_256(mode)                                   \
  if constexpr (W == 8 && kSame<T, float>) {                 \
    return {__builtin_ia32_roundps256(a.part[0], mode | 8)}; \
  }
#else
#define TK_ROUND_256(mode)
#endif
#define TK_ROUND(name, mode, function)                            \
  template <class T, int W>                                       \
  TK_FN Vec<T, W> name(Vec<T, W> a) {                             \
    if constexpr (kIsFloat<T>) {                                  \
      TK_ROUND_512(mode)                                          \
      TK_ROUND_256(mode)                                          \
      return map_lanes<T>([](T x) { return T(function(x)); }, a); \
    } else {                                                      \
      return a;                                                   \
    }                                                             \
  }
// Through double for float too: exact, and one builtin less.
TK_ROUND(round, 0, __builtin_rint)  // half to even
TK_ROUND(floor, 1, __builtin_floor)
TK_ROUND(ceil, 2, __builtin_ceil)
TK_ROUND(trunc, 3, __builtin_trunc)
#undef TK_ROUND
#undef TK_ROUND_256
#undef TK_ROUND_512

// --- roots and quotients

template <class T, int W>
TK_FN Vec<T, W> sqrt(Vec<T, W> a) {
#if TK_AVX512
  if constexpr (W == 16) {
    using V = Vec<T, W>;
    V r;
    TK_EACH_PART(p, V, r.part[p] = avx512::sqrt(a.part[p]););
    return r;
  }
#endif
#if TK_AVX2
  if constexpr (W == 8 && kSame<T, float>) return {__builtin_ia32_sqrtps256(a.part[0])};
#endif
  if constexpr (kSame<T, float>)
    return map_lanes<T>([](T x) { return __builtin_sqrtf(x); }, a);
  else
    return map_lanes<T>([](T x) { return __builtin_sqrt(x); }, a);
}
template <class T, int W>
TK_FN Vec<T, W> reciprocal(Vec<T, W> a) {
  return like(a, T(1)) / a;
}

// Integers: rounds towards zero; a divisor of 0 gives 0, and the most negative number over -1
// wraps.
template <class T, int W>
TK_FN Vec<T, W> trunc_div(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kIsFloat<T>) {
    return trunc(a / b);
#if TK_AVX512
  } else if constexpr (W == 16 && sizeof(T) <= 4 && !kSame<T, uint32_t>) {
    // The quotient of two 32-bit integers is exact in double once truncated.
    const Vec<double, W> x = convert_lanes<double>(convert_lanes<int32_t>(a)),
                         y = convert_lanes<double>(convert_lanes<int32_t>(b));
    const Vec<T, W> q = convert_lanes<T>(convert_lanes<int32_t>(convert_lanes<int64_t>(x / y)));
    return where(eq(b, like(b, T(0))), b, q);
#endif
  } else {
    return map_lanes<T>(
        [](T x, T y) -> T {
          if (y == T(0)) return T(0);
          if (kIsSigned<T> && y == T(-1)) return T(T(0) - x);
          return T(x / y);
        },
        a, b);
  }
}
// `/`: exact for floats; trunc_div for integers (true division casts to float first).
template <class T, int W>
TK_FN Vec<T, W> div(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kIsFloat<T>)
    return a / b;
  else
    return trunc_div(a, b);
}

// C's remainder: the sign of a. An integer divisor of 0 gives a.
template <class T, int W>
TK_FN Vec<T, W> fmod(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kSame<T, float>)
    return map_lanes<T>([](T x, T y) { return __builtin_fmodf(x, y); }, a, b);
  else if constexpr (kSame<T, double>)
    return map_lanes<T>([](T x, T y) { return __builtin_fmod(x, y); }, a, b);
  else
    return a - trunc_div(a, b) * b;
}
// Python's remainder: the sign of b.
template <class T, int W>
TK_FN Vec<T, W> mod(Vec<T, W> a, Vec<T, W> b) {
  const Vec<T, W> m = fmod(a, b);
  if constexpr (!kIsSigned<T>) {
    return m;
  } else {
    const Vec<T, W> zero = like(a, T(0));
    return where(ne(m, zero) & (lt(b, zero) ^ lt(m, zero)), m + b, m);
  }
}
// Rounds towards minus infinity. An integer divisor of 0 gives 0 or -1.
template <class T, int W>
TK_FN Vec<T, W> floor_div(Vec<T, W> a, Vec<T, W> b) {
  const Vec<T, W> zero = like(a, T(0));
  if constexpr (kIsFloat<T>) {
    // As c10::div_floor_floating: exact where a/b rounds up to an integer.
    const Vec<T, W> one = like(a, T(1)), m = fmod(a, b);
    Vec<T, W> q = (a - m) / b;
    q = where(ne(m, zero) & (lt(b, zero) ^ lt(m, zero)), q - one, q);
    Vec<T, W> r = floor(q);
    r = where(gt(q - r, like(a, T(0.5))), r + one, r);
    r = where(eq(q, zero), copysign(zero, a / b), r);
    return where(eq(b, zero), a / b, r);
  } else {
    const Vec<T, W> q = trunc_div(a, b);
    if constexpr (!kIsSigned<T>)
      return q;
    else
      return where(ne(q * b, a) & (lt(a, zero) ^ lt(b, zero)), q - like(a, T(1)), q);
  }
}

// --- shifts: a count below 0 or beyond the type's bits shifts everything out

template <class T, int W>
TK_FN Vec<T, W> shift_left(Vec<T, W> a, Vec<T, W> count) {
  using U = typename UIntOf<sizeof(T)>::type;
  const Vec<U, W> x = bitcast<U>(a), n = bitcast<U>(count), bits = broadcast<W>(U(sizeof(T) * 8));
  using V = Vec<U, W>;
  const V safe = n & broadcast<W>(U(sizeof(T) * 8 - 1));
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(x.part[p] << safe.part[p]););
  return bitcast<T>(where_or_zero(lt(n, bits), r));
}
template <class T, int W>
TK_FN Vec<T, W> shift_right(Vec<T, W> a, Vec<T, W> count) {
  using U = typename UIntOf<sizeof(T)>::type;
  const Vec<U, W> n = bitcast<U>(count), last = broadcast<W>(U(sizeof(T) * 8 - 1));
  const Vec<T, W> safe = bitcast<T>(where(lt(n, last), n, last));
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(a.part[p] >> safe.part[p]););
  if constexpr (kIsSigned<T>)
    return r;
  else
    return where_or_zero(le(n, last), r);
}

}  // namespace tk

#endif  // TENSORD_CPU_ARITH_H_
