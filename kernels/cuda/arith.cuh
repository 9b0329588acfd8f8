// SPDX-License-Identifier: Apache-2.0
// Arithmetic, rounding, division, bits and logic: what needs no approximation.
#ifndef TENSORD_CUDA_ARITH_CUH_
#define TENSORD_CUDA_ARITH_CUH_

#include "tensord/cuda/convert.cuh"

namespace tk {

namespace scalar {

// --- by operators. On truth values addition is or, subtraction xor, multiplication and.

template <class T>
TK_FN T add(T a, T b) {
  if constexpr (kSame<T, bool>)
    return a || b;
  else
    return T(Wrapping<T>(a) + Wrapping<T>(b));
}
template <class T>
TK_FN T sub(T a, T b) {
  if constexpr (kSame<T, bool>)
    return a != b;
  else
    return T(Wrapping<T>(a) - Wrapping<T>(b));
}
template <class T>
TK_FN T mul(T a, T b) {
  if constexpr (kSame<T, bool>)
    return a && b;
  else
    return T(Wrapping<T>(a) * Wrapping<T>(b));
}
// Of any type: what is not 0 is true.
template <class T>
TK_FN bool logical_not(T a) {
  return a == T(0);
}
template <class T>
TK_FN bool logical_and(T a, T b) {
  return (a != T(0)) & (b != T(0));
}
template <class T>
TK_FN bool logical_or(T a, T b) {
  return (a != T(0)) | (b != T(0));
}
template <class T>
TK_FN bool logical_xor(T a, T b) {
  return (a != T(0)) != (b != T(0));
}
// a*b + c; floats round once.
template <class T>
TK_FN T fma(T a, T b, T c) {
  if constexpr (kSame<T, float>)
    return ::fmaf(a, b, c);
  else if constexpr (kSame<T, double>)
    return ::fma(a, b, c);
  else
    return add(mul(a, b), c);
}

// --- sign and magnitude

template <class T>
TK_FN constexpr Bits<T> sign_bit() {
  return Bits<T>(Bits<T>(1) << (sizeof(T) * 8 - 1));
}

template <class T>
TK_FN bool isnan(T a) {
  if constexpr (kIsFloat<T>)
    return a != a;
  else
    return false;
}
template <class T>
TK_FN T abs(T a) {
  if constexpr (kSame<T, float>)
    return ::fabsf(a);
  else if constexpr (kSame<T, double>)
    return ::fabs(a);
  else if constexpr (kIsSigned<T>)
    return a < T(0) ? T(Wrapping<T>(0) - Wrapping<T>(a)) : a;
  else
    return a;
}
template <class T>
TK_FN bool isinf(T a) {
  if constexpr (kIsFloat<T>)
    return abs(a) == infinity<T>();
  else
    return false;
}
template <class T>
TK_FN T copysign(T a, T b) {
  const Bits<T> sign = sign_bit<T>();
  return __builtin_bit_cast(T, Bits<T>((__builtin_bit_cast(Bits<T>, abs(a)) & Bits<T>(~sign)) |
                                       (__builtin_bit_cast(Bits<T>, b) & sign)));
}
// -1, 0 or 1; 0 for NaN, as PyTorch.
template <class T>
TK_FN T sign(T a) {
  if constexpr (kIsSigned<T>)
    return a > T(0) ? T(1) : a < T(0) ? T(-1) : T(0);
  else
    return a > T(0) ? T(1) : T(0);
}
// NaN stays NaN.
template <class T>
TK_FN T relu(T a) {
  return a < T(0) ? T(0) : a;
}
// NaN in either operand gives NaN.
template <class T>
TK_FN T minimum(T a, T b) {
  if constexpr (kSame<T, float>)
    return ptx::min_nan(a, b);
  else
    return (a < b || isnan(a)) ? a : b;
}
template <class T>
TK_FN T maximum(T a, T b) {
  if constexpr (kSame<T, float>)
    return ptx::max_nan(a, b);
  else
    return (a > b || isnan(a)) ? a : b;
}

// --- rounding: integers are returned as they are

#define TK_ROUND(name, function)         \
  template <class T>                     \
  TK_FN T name(T a) {                    \
    if constexpr (kSame<T, float>)       \
      return ::function##f(a);           \
    else if constexpr (kSame<T, double>) \
      return ::function(a);              \
    else                                 \
      return a;                          \
  }
TK_ROUND(round, rint)  // half to even
TK_ROUND(floor, floor)
TK_ROUND(ceil, ceil)
TK_ROUND(trunc, trunc)
#undef TK_ROUND

// --- roots and quotients

template <class T>
TK_FN T sqrt(T a) {
  if constexpr (kSame<T, float>)
    return ::sqrtf(a);
  else
    return ::sqrt(a);
}
template <class T>
TK_FN T reciprocal(T a) {
  return T(1) / a;
}
// Integers: rounds towards zero; a divisor of 0 gives 0, and the most negative number over -1
// wraps.
template <class T>
TK_FN T trunc_div(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return trunc(T(a / b));
  } else {
    // No branch: quotients of 1 and -1 stand in.
    T q;
    if constexpr (kIsSigned<T>) {
      const T safe = (b == T(0) || b == T(-1)) ? T(1) : b;
      q = T(a / safe);
      if (b == T(-1)) q = T(Wrapping<T>(0) - Wrapping<T>(a));
    } else {
      q = T(a / (b == T(0) ? T(1) : b));
    }
    return b == T(0) ? T(0) : q;
  }
}
// `/`: exact for floats; trunc_div for integers (true division casts to float first).
template <class T>
TK_FN T div(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a / b;
  else
    return trunc_div(a, b);
}

TK_CALL float fmod_float(float a, float b) { return ::fmodf(a, b); }
TK_CALL double fmod_double(double a, double b) { return ::fmod(a, b); }

// C's remainder: the sign of a. An integer divisor of 0 gives a.
template <class T>
TK_FN T fmod(T a, T b) {
  if constexpr (kSame<T, float>)
    return fmod_float(a, b);
  else if constexpr (kSame<T, double>)
    return fmod_double(a, b);
  else
    return sub(a, mul(trunc_div(a, b), b));
}
// Python's remainder: the sign of b.
template <class T>
TK_FN T mod(T a, T b) {
  const T m = fmod(a, b);
  if constexpr (kIsSigned<T>)
    return (m != T(0) && (b < T(0)) != (m < T(0))) ? add(m, b) : m;
  else
    return m;
}
// Rounds towards minus infinity. An integer divisor of 0 gives 0 or -1.
template <class T>
TK_FN T floor_div(T a, T b) {
  if constexpr (kIsFloat<T>) {
    // As c10::div_floor_floating: exact where a/b rounds up to an integer.
    const T m = fmod(a, b);
    T q = (a - m) / b;
    if (m != T(0) && (b < T(0)) != (m < T(0))) q = q - T(1);
    T r = floor(q);
    if (q - r > T(0.5)) r = r + T(1);
    if (q == T(0)) r = copysign(T(0), a / b);
    return b == T(0) ? a / b : r;
  } else {
    const T q = trunc_div(a, b);
    if constexpr (kIsSigned<T>)
      return (mul(q, b) != a && (a < T(0)) != (b < T(0))) ? sub(q, T(1)) : q;
    else
      return q;
  }
}

// --- bits. A shift count below 0 or beyond the type's bits shifts everything out.

template <class T>
TK_FN T shift_left(T a, T count) {
  const Bits<T> n = Bits<T>(count);
  constexpr int kBits = int(sizeof(T)) * 8;
  return n < kBits ? T(Wrapping<T>(a) << (n & (kBits - 1))) : T(0);
}
template <class T>
TK_FN T shift_right(T a, T count) {
  const Bits<T> n = Bits<T>(count);
  constexpr int kBits = int(sizeof(T)) * 8;
  if constexpr (kIsSigned<T>)
    return T(a >> (n < kBits ? n : kBits - 1));
  else
    return n < kBits ? T(a >> (n & (kBits - 1))) : T(0);
}

}  // namespace scalar

TK_LIFT2(add)
TK_LIFT2(sub)
TK_LIFT2(mul)
TK_LIFT1(logical_not)
TK_LIFT2(logical_and)
TK_LIFT2(logical_or)
TK_LIFT2(logical_xor)
TK_LIFT1(isnan)
TK_LIFT1(isinf)
TK_LIFT1(abs)
TK_LIFT1(sign)
TK_LIFT1(relu)
TK_LIFT2(copysign)
TK_LIFT2(minimum)
TK_LIFT2(maximum)
TK_LIFT1(round)
TK_LIFT1(floor)
TK_LIFT1(ceil)
TK_LIFT1(trunc)
TK_LIFT1(sqrt)
TK_LIFT1(reciprocal)
TK_LIFT2(trunc_div)
TK_LIFT2(div)
TK_LIFT2(fmod)
TK_LIFT2(mod)
TK_LIFT2(floor_div)
TK_LIFT2(shift_left)
TK_LIFT2(shift_right)

template <class T, int W>
TK_FN Vec<T, W> fma(Vec<T, W> a, Vec<T, W> b, Vec<T, W> c) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = scalar::fma(a.at[i], b.at[i], c.at[i]);
  return r;
}
template <class T, int W>
TK_FN Vec<T, W> neg(Vec<T, W> a) {
  return -a;
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

}  // namespace tk

#endif  // TENSORD_CUDA_ARITH_CUH_
