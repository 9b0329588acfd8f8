// SPDX-License-Identifier: Apache-2.0
// What the special functions are written in: the device's own library, and series whose
// coefficients are arguments. As arguments they become immediate operands, where NVRTC would place
// an array in the device's memory.
#ifndef TENSORD_SPECIAL_SERIES_H_
#define TENSORD_SPECIAL_SERIES_H_

#if !defined(__CUDACC_RTC__)  // there the CUDA prelude has the types
#include <stdint.h>
#endif

#if defined(__CUDACC_RTC__)
// One copy in a kernel, however many lanes call it.
#define TK_SPECIAL static __device__ __noinline__
#define TK_SPECIAL_INLINE static __device__ __forceinline__
#define TK_LIBRARY(name) ::name
#else
#define TK_SPECIAL static inline
#define TK_SPECIAL_INLINE static inline __attribute__((always_inline))
#define TK_LIBRARY(name) __builtin_##name
#endif

namespace tk_special {

#define TK_LIBRARY_FUNCTION(name)                                          \
  TK_SPECIAL_INLINE float name(float x) { return TK_LIBRARY(name##f)(x); } \
  TK_SPECIAL_INLINE double name(double x) { return TK_LIBRARY(name)(x); }
TK_LIBRARY_FUNCTION(acos)
TK_LIBRARY_FUNCTION(cos)
TK_LIBRARY_FUNCTION(erfc)
TK_LIBRARY_FUNCTION(exp)
TK_LIBRARY_FUNCTION(fabs)
TK_LIBRARY_FUNCTION(floor)
TK_LIBRARY_FUNCTION(log)
TK_LIBRARY_FUNCTION(log1p)
TK_LIBRARY_FUNCTION(sin)
TK_LIBRARY_FUNCTION(sqrt)
TK_LIBRARY_FUNCTION(trunc)
#undef TK_LIBRARY_FUNCTION
TK_SPECIAL_INLINE double pow(double x, double y) { return TK_LIBRARY(pow)(x, y); }
TK_SPECIAL_INLINE double fma(double x, double y, double z) { return TK_LIBRARY(fma)(x, y, z); }
// Of x > 0, where gamma is positive.
TK_SPECIAL_INLINE double log_gamma(double x) {
#if defined(__CUDACC_RTC__)
  return ::lgamma(x);
#else
  int sign;  // the reentrant form: lgamma itself writes a global
  return __builtin_lgamma_r(x, &sign);
#endif
}

TK_SPECIAL_INLINE double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ull); }
TK_SPECIAL_INLINE double quiet_nan() { return __builtin_bit_cast(double, 0x7ff8000000000000ull); }
TK_SPECIAL_INLINE bool is_infinite(double x) { return fabs(x) == infinity(); }

// The polynomial with these coefficients, that of the highest power first.
template <class... C>
TK_SPECIAL_INLINE double horner(double x, C... coefficients) {
  double sum = 0;
  ((sum = sum * x + coefficients), ...);
  return sum;
}

// The sum of c[k] T_k(x / 2), of which the first is halved; the highest coefficient comes first.
// Source: C. W. Clenshaw, "A note on the summation of Chebyshev series", MTAC 9 (1955).
template <class... C>
TK_SPECIAL_INLINE double chebyshev_series(double x, C... coefficients) {
  double last = 0, before = 0, older = 0;
  ((older = before, before = last, last = x * before - older + coefficients), ...);
  return 0.5 * (last - older);
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_SERIES_H_
