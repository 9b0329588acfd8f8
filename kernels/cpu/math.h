// SPDX-License-Identifier: Apache-2.0
// Elementary and special functions of Vec<float, W> and Vec<double, W>. The vectorised ones are in
// math_float.h; the rest, every double and every W=1 goes to libm lane by lane.
#ifndef TENSORD_CPU_MATH_H_
#define TENSORD_CPU_MATH_H_

#include "math_float.h"
#include "math_pow.h"
#include "special.h"

namespace tk {

// name, float vector form, float libm form, double libm form.
#define TK_VECTOR_FUNCTION(name, vector, libm_float, libm_double)   \
  template <class T, int W>                                         \
  TK_FN Vec<T, W> name(Vec<T, W> a) {                               \
    if constexpr (kSame<T, double>)                                 \
      return map_lanes<T>([](T x) -> T { return libm_double; }, a); \
    else if constexpr (W == 1)                                      \
      return map_lanes<T>([](T x) -> T { return libm_float; }, a);  \
    else                                                            \
      return vector(a);                                             \
  }
TK_VECTOR_FUNCTION(exp, exp_float, __builtin_expf(x), __builtin_exp(x))
TK_VECTOR_FUNCTION(exp2, exp2_float, __builtin_exp2f(x), __builtin_exp2(x))
TK_VECTOR_FUNCTION(expm1, expm1_float, __builtin_expm1f(x), __builtin_expm1(x))
TK_VECTOR_FUNCTION(log, log_float, __builtin_logf(x), __builtin_log(x))
TK_VECTOR_FUNCTION(log2, log2_float, __builtin_log2f(x), __builtin_log2(x))
TK_VECTOR_FUNCTION(log10, log10_float, __builtin_log10f(x), __builtin_log10(x))
TK_VECTOR_FUNCTION(log1p, log1p_float, __builtin_log1pf(x), __builtin_log1p(x))
TK_VECTOR_FUNCTION(sin, sin_float, __builtin_sinf(x), __builtin_sin(x))
TK_VECTOR_FUNCTION(cos, cos_float, __builtin_cosf(x), __builtin_cos(x))
TK_VECTOR_FUNCTION(tanh, tanh_float, __builtin_tanhf(x), __builtin_tanh(x))
TK_VECTOR_FUNCTION(erf, erf_float, __builtin_erff(x), __builtin_erf(x))
TK_VECTOR_FUNCTION(erfc, erfc_float, __builtin_erfcf(x), __builtin_erfc(x))
TK_VECTOR_FUNCTION(sigmoid, sigmoid_float, float(scalar::sigmoid(x)), scalar::sigmoid(x))
TK_VECTOR_FUNCTION(rsqrt, rsqrt_float, 1.0f / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x))
#undef TK_VECTOR_FUNCTION

// The standard normal distribution: the probability below x, and its density.
template <class T, int W>
TK_FN Vec<T, W> normal_cdf(Vec<T, W> x) {
  const Vec<T, W> e = erf(x * like(x, T(0.70710678118654752)));
  return (e + like(x, T(1))) * like(x, T(0.5));
}
template <class T, int W>
TK_FN Vec<T, W> normal_pdf(Vec<T, W> x) {
  return exp(x * x * like(x, T(-0.5))) * like(x, T(0.39894228040143268));
}

// name, float form, double form.
#define TK_LANE_FUNCTION(name, libm_float, libm_double)             \
  template <class T, int W>                                         \
  TK_FN Vec<T, W> name(Vec<T, W> a) {                               \
    if constexpr (kSame<T, double>)                                 \
      return map_lanes<T>([](T x) -> T { return libm_double; }, a); \
    else                                                            \
      return map_lanes<T>([](T x) -> T { return libm_float; }, a);  \
  }
TK_LANE_FUNCTION(tan, __builtin_tanf(x), __builtin_tan(x))
TK_LANE_FUNCTION(asin, __builtin_asinf(x), __builtin_asin(x))
TK_LANE_FUNCTION(acos, __builtin_acosf(x), __builtin_acos(x))
TK_LANE_FUNCTION(atan, __builtin_atanf(x), __builtin_atan(x))
TK_LANE_FUNCTION(sinh, __builtin_sinhf(x), __builtin_sinh(x))
TK_LANE_FUNCTION(cosh, __builtin_coshf(x), __builtin_cosh(x))
TK_LANE_FUNCTION(asinh, __builtin_asinhf(x), __builtin_asinh(x))
TK_LANE_FUNCTION(acosh, __builtin_acoshf(x), __builtin_acosh(x))
TK_LANE_FUNCTION(atanh, __builtin_atanhf(x), __builtin_atanh(x))
TK_LANE_FUNCTION(lgamma, float(scalar::lgamma(x)), scalar::lgamma(x))
TK_LANE_FUNCTION(digamma, float(scalar::digamma(x)), scalar::digamma(x))
TK_LANE_FUNCTION(erfinv, float(scalar::erfinv(x)), scalar::erfinv(x))
#undef TK_LANE_FUNCTION

#define TK_LANE_FUNCTION2(name, libm_float, libm_double) \
  template <class T, int W>                              \
  TK_FN Vec<T, W> name(Vec<T, W> a, Vec<T, W> b) {       \
    return map_lanes<T>(                                 \
        [](T x, T y) -> T {                              \
          if constexpr (kSame<T, double>)                \
            return libm_double(x, y);                    \
          else                                           \
            return libm_float(x, y);                     \
        },                                               \
        a, b);                                           \
  }
TK_LANE_FUNCTION2(atan2, __builtin_atan2f, __builtin_atan2)
TK_LANE_FUNCTION2(hypot, __builtin_hypotf, __builtin_hypot)
#undef TK_LANE_FUNCTION2

// log(exp(a) + exp(b)).
template <class T, int W>
TK_FN Vec<T, W> logaddexp(Vec<T, W> a, Vec<T, W> b) {
  const Vec<T, W> most = maximum(a, b), least = minimum(a, b);
  // Equal infinities have no difference.
  const Vec<T, W> difference = where(eq(most, least), like(most, T(0)), least - most);
  return most + log1p(exp(difference));
}

// Integers wrap; a negative exponent gives 0, or 1 or -1 where the base is one of them.
template <class T, int W>
TK_FN Vec<T, W> pow(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (kSame<T, double>) {
    return map_lanes<T>([](T x, T y) { return __builtin_pow(x, y); }, a, b);
  } else if constexpr (kSame<T, float>) {
    if constexpr (W == 1)
      return map_lanes<T>([](T x, T y) { return __builtin_powf(x, y); }, a, b);
    else
      return pow_float(a, b);
  } else {
    return map_lanes<T>(
        [](T x, T y) -> T {
          if (kIsSigned<T> && y < T(0)) {
            if (x == T(1)) return T(1);
            return x == T(-1) ? (y & 1 ? T(-1) : T(1)) : T(0);
          }
          T r = T(1);
          for (; y != T(0); y = T(y >> 1), x = T(x * x))
            if (y & 1) r = T(r * x);
          return r;
        },
        a, b);
  }
}

}  // namespace tk

#endif  // TENSORD_CPU_MATH_H_
