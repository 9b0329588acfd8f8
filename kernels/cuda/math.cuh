// SPDX-License-Identifier: Apache-2.0
// Elementary and special functions of Vec<float, W> and Vec<double, W>: those of CUDA's library,
// whose errors are a few units in the last place (CUDA C++ Programming Guide, "Mathematical
// Functions"), but for sigmoid, sin and cos. What is long is called, not inlined per lane.
#ifndef TENSORD_CUDA_MATH_CUH_
#define TENSORD_CUDA_MATH_CUH_

#include "tensord/cuda/arith.cuh"
#include "tensord/cuda/special.cuh"

namespace tk {

namespace scalar {

// name: float inline, double by a call.
#define TK_MATH(name, float_form, double_form)                   \
  TK_CALL double name##_double(double x) { return double_form; } \
  template <class T>                                             \
  TK_FN T name(T x) {                                            \
    if constexpr (kSame<T, double>)                              \
      return name##_double(x);                                   \
    else                                                         \
      return float_form;                                         \
  }
// The same, with float by a call too.
#define TK_LONG_MATH(name, float_form, double_form)          \
  TK_CALL float name##_float(float x) { return float_form; } \
  TK_MATH(name, name##_float(x), double_form)

TK_MATH(exp, ::expf(x), ::exp(x))
TK_MATH(exp2, ::exp2f(x), ::exp2(x))
TK_MATH(expm1, ::expm1f(x), ::expm1(x))
TK_MATH(log, ::logf(x), ::log(x))
TK_MATH(log2, ::log2f(x), ::log2(x))
TK_MATH(log10, ::log10f(x), ::log10(x))
TK_MATH(log1p, ::log1pf(x), ::log1p(x))
TK_MATH(tanh, ::tanhf(x), ::tanh(x))
TK_MATH(erf, ::erff(x), ::erf(x))
TK_MATH(rsqrt, ::rsqrtf(x), ::rsqrt(x))
TK_MATH(asin, ::asinf(x), ::asin(x))
TK_MATH(acos, ::acosf(x), ::acos(x))
TK_MATH(atan, ::atanf(x), ::atan(x))
TK_LONG_MATH(sinh, ::sinhf(x), ::sinh(x))
TK_LONG_MATH(cosh, ::coshf(x), ::cosh(x))
TK_LONG_MATH(asinh, ::asinhf(x), ::asinh(x))
TK_LONG_MATH(acosh, ::acoshf(x), ::acosh(x))
TK_LONG_MATH(atanh, ::atanhf(x), ::atanh(x))
TK_LONG_MATH(tan, ::tanf(x), ::tan(x))
TK_LONG_MATH(erfc, ::erfcf(x), ::erfc(x))
TK_LONG_MATH(erfinv, ::erfinvf(x), ::erfinv(x))
TK_LONG_MATH(lgamma, ::lgammaf(x), ::lgamma(x))

template <class T>
TK_FN T digamma(T x) {
  return T(digamma_double(x));
}

TK_CALL double sigmoid_double(double x) { return 1 / (1 + ::exp(-x)); }
// Results below 2^-126 are flushed to 0.
template <class T>
TK_FN T sigmoid(T x) {
  if constexpr (kSame<T, double>)
    return sigmoid_double(x);
  else
    return ptx::reciprocal_approx(1.0f + ::expf(-x));
}

// The standard normal distribution. The density's exp is that of the tail, so that who needs both
// pays for one.
TK_CALL double normal_cdf_double(double x) { return 0.5 * ::erfc(x * -0.70710678118654752); }
TK_CALL double normal_pdf_double(double x) { return ::exp(x * x * -0.5) * 0.39894228040143268; }
TK_FN float exp_half_square(float x) { return ptx::exp2_approx(x * x * -0.721347520f); }
template <class T>
TK_FN T normal_pdf(T x) {
  if constexpr (kSame<T, double>)
    return normal_pdf_double(x);
  else
    return exp_half_square(x) * 0.398942280f;
}
// The probability below x. The tail beyond z is exp(-z^2/2) t p(t) with t = 1 / (1 + 0.3 z), the
// form of Hastings (1955); our own fit of p, to 1.5e-7 of the tail for z < 14.
template <class T>
TK_FN T normal_cdf(T x) {
  if constexpr (kSame<T, double>) {
    return normal_cdf_double(x);
  } else {
    const float t = ptx::reciprocal_approx(::fmaf(::fabsf(x), 0.3f, 1.0f));
    float p = 0.0356751233f;
    p = ::fmaf(p, t, -0.157204464f);
    p = ::fmaf(p, t, 0.206355765f);
    p = ::fmaf(p, t, -0.0536855794f);
    p = ::fmaf(p, t, 0.128562570f);
    p = ::fmaf(p, t, 0.0999132320f);
    p = ::fmaf(p, t, 0.120753996f);
    p = ::fmaf(p, t, 0.119629294f);
    const float tail = p * t * exp_half_square(x);
    return x > 0.0f ? 1.0f - tail : tail;
  }
}

// CUDA's sinf and cosf carry their reduction of huge arguments, with its array in memory, into
// every lane; here it is a call, which is hardly ever made.
TK_CALL float sin_huge(float x) { return ::sinf(x); }
TK_CALL float cos_huge(float x) { return ::cosf(x); }
TK_CALL double sin_double(double x) { return ::sin(x); }
TK_CALL double cos_double(double x) { return ::cos(x); }

// Beyond it the three-part reduction loses digits.
enum { kTrigLimit = 48000 };

// sin(x + quarter*pi/2), |x| <= kTrigLimit. Method: Cody and Waite (1980), as in the CPU prelude.
TK_FN float sin_core(float x, int quarter) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float t = ::fmaf(x, 0.636619747f, kRound), n = t - kRound;
  float r = ::fmaf(n, -0x1.921fb0p0f, x);
  r = ::fmaf(n, -0x1.5110b4p-22f, r);
  r = ::fmaf(n, -0x1.846988p-48f, r);
  const uint32_t k = __builtin_bit_cast(uint32_t, t) + uint32_t(quarter);
  const bool odd = k & 1;
  // The two polynomials have one form: a + b * (c0 + s*(c1 + s*c2)).
  const float s = r * r;
  const float c2 = odd ? 2.44306684e-05f : -0.000195172062f;
  const float c1 = odd ? -0.00138873013f : 0.00833218452f;
  const float c0 = odd ? 0.0416666456f : -0.166666552f;
  const float a = odd ? ::fmaf(s, -0.5f, 1.0f) : r;
  const float b = odd ? s * s : r * s;
  const float y = ::fmaf(b, ::fmaf(s, ::fmaf(s, c2, c1), c0), a);
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, y) ^ (k & 2) << 30);
}

template <class T>
TK_FN T sin(T x) {
  if constexpr (kSame<T, double>) {
    return sin_double(x);
  } else {
    if (!(::fabsf(x) <= float(kTrigLimit))) return sin_huge(x);
    return x == 0.0f ? x : sin_core(x, 0);  // keeps -0
  }
}
template <class T>
TK_FN T cos(T x) {
  if constexpr (kSame<T, double>) {
    return cos_double(x);
  } else {
    if (!(::fabsf(x) <= float(kTrigLimit))) return cos_huge(x);
    return sin_core(x, 1);
  }
}

#define TK_LONG_MATH2(name, float_function, double_function)                         \
  TK_CALL float name##_float(float x, float y) { return float_function(x, y); }      \
  TK_CALL double name##_double(double x, double y) { return double_function(x, y); } \
  template <class T>                                                                 \
  TK_FN T name(T x, T y) {                                                           \
    if constexpr (kSame<T, double>)                                                  \
      return name##_double(x, y);                                                    \
    else                                                                             \
      return name##_float(x, y);                                                     \
  }
TK_LONG_MATH2(atan2, ::atan2f, ::atan2)
TK_LONG_MATH2(hypot, ::hypotf, ::hypot)
TK_LONG_MATH2(float_pow, ::powf, ::pow)
#undef TK_MATH
#undef TK_LONG_MATH
#undef TK_LONG_MATH2

// log(exp(x) + exp(y)).
template <class T>
TK_FN T logaddexp(T x, T y) {
  const T most = maximum(x, y), least = minimum(x, y);
  // Equal infinities have no difference.
  return most + log1p(exp(most == least ? T(0) : T(least - most)));
}

// Integers wrap; a negative exponent gives 0, or 1 or -1 where the base is one of them.
template <class T>
TK_FN T pow(T x, T y) {
  if constexpr (kIsFloat<T>) {
    return float_pow(x, y);
  } else {
    if constexpr (kIsSigned<T>) {
      if (y < T(0)) {
        if (x == T(1)) return T(1);
        return x == T(-1) ? (y & 1 ? T(-1) : T(1)) : T(0);
      }
    }
    T r = T(1);
    for (; y != T(0); y = T(y >> 1), x = mul(x, x))
      if (y & 1) r = mul(r, x);
    return r;
  }
}

}  // namespace scalar

TK_LIFT1(exp)
TK_LIFT1(exp2)
TK_LIFT1(expm1)
TK_LIFT1(log)
TK_LIFT1(log2)
TK_LIFT1(log10)
TK_LIFT1(log1p)
TK_LIFT1(sin)
TK_LIFT1(cos)
TK_LIFT1(tan)
TK_LIFT1(asin)
TK_LIFT1(acos)
TK_LIFT1(atan)
TK_LIFT1(sinh)
TK_LIFT1(cosh)
TK_LIFT1(tanh)
TK_LIFT1(asinh)
TK_LIFT1(acosh)
TK_LIFT1(atanh)
TK_LIFT1(erf)
TK_LIFT1(normal_cdf)
TK_LIFT1(normal_pdf)
TK_LIFT1(erfc)
TK_LIFT1(erfinv)
TK_LIFT1(lgamma)
TK_LIFT1(digamma)
TK_LIFT1(sigmoid)
TK_LIFT1(rsqrt)
TK_LIFT2(atan2)
TK_LIFT2(logaddexp)
TK_LIFT2(hypot)
TK_LIFT2(pow)

}  // namespace tk

#endif  // TENSORD_CUDA_MATH_CUH_
