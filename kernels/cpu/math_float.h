// SPDX-License-Identifier: Apache-2.0
// Elementary functions of float, vectorised without branches (but for huge arguments of sin and
// cos). W=1 and what is not here loops over libm (math.h). Errors are in units in the last place,
// measured by tests/unit/kernels/cpu_math_test.cc. Subnormal results may be flushed where a comment
// says so.
//
// Methods: Cody and Waite, "Software Manual for the Elementary Functions" (1980), for argument
// reduction; Tang, "Table-driven implementation of the exponential function" (1989); the reductions
// of log1p and erfc as in N. Juffa's public-domain implementations. Polynomials are our own fits
// (Lawson).
#ifndef TENSORD_CPU_MATH_FLOAT_H_
#define TENSORD_CPU_MATH_FLOAT_H_

#include "arith.h"
#include "math_tables.h"

namespace tk {

// c0 + c1*x + c2*x^2 + ...
template <class T, int W>
TK_FN Vec<T, W> poly(Vec<T, W> x, T c0) {
  return like(x, c0);
}
template <class T, int W, class... C>
TK_FN Vec<T, W> poly(Vec<T, W> x, T c0, C... rest) {
  return fma(poly(x, rest...), x, like(x, c0));
}

namespace impl {

// Adding it rounds to an integer, which is then in the low mantissa bits.
inline constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
inline constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;

// `v`, rounded. A product that GCC contracts with a sum behind it is not: what should be infinity
// is a number then, and infinity less infinity is -infinity instead of NaN.
template <int W>
TK_FN Vec<float, W> rounded(Vec<float, W> v) {
  TK_EACH_PART(p, decltype(v), __asm__("" : "+x"(v.part[p])););
  return v;
}

// y * 2^n for an integer n in float form, |n| < 250: in two steps, for 2^n alone may not be a
// float.
template <int W>
TK_FN Vec<float, W> scale(Vec<float, W> y, Vec<float, W> n) {
#if TK_AVX512
  if constexpr (W == 16) return {avx512::scale(y.part[0], n.part[0])};
#endif
  const Vec<int32_t, W> k = convert_lanes<int32_t>(n), k1 = k >> 1, k2 = k - k1;
  const Vec<int32_t, W> bias = like(k, 127);
  return rounded(y * bitcast<float>((k1 + bias) << 23) * bitcast<float>((k2 + bias) << 23));
}

// x, but no further from 0 than [lo, hi]; NaN stays.
template <int W>
TK_FN Vec<float, W> clamp(Vec<float, W> x, float lo, float hi) {
#if TK_AVX512
  if constexpr (W == 16)  // MINPS gives its second operand where either is NaN
    return {avx512::min(like(x, hi).part[0], avx512::max(like(x, lo).part[0], x.part[0]))};
#endif
  return where(lt(x, like(x, lo)), like(x, lo), where(gt(x, like(x, hi)), like(x, hi), x));
}

#if TK_AVX512
TK_FN avx512::F32 load16(const float* p) {
  avx512::F32 r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}

// 2^(j/16) by table and the rest by polynomial; `t` is 16ths of an exponent plus the rounding
// constant.
TK_FN Vec<float, 16> exp_from_table(Vec<float, 16> t, Vec<float, 16> n, Vec<float, 16> p) {
  const Vec<float, 16> power = {
      avx512::look_up16(load16(kExp2Table), __builtin_bit_cast(avx512::I32, t.part[0]))};
  return scale(fma(power, p, power), n);
}
#endif

}  // namespace impl

// Error below 1.1 ulp.
template <int W>
TK_FN Vec<float, W> exp_float(Vec<float, W> x) {
#if TK_AVX512
  if constexpr (W == 16) {
    const Vec<float, W> round = like(x, impl::kRound / 16);
    const Vec<float, W> t = fma(x, like(x, 1.44269502f), round), n = t - round;
    Vec<float, W> r = fma(n, like(x, -impl::kLn2High), x);
    r = fma(n, like(x, -impl::kLn2Low), r);
    // Infinity minus infinity and the like: the scaling alone gives 0 or infinity there.
    r = where_or_zero(lt(abs(x), like(x, 128.0f)), r);
    const Vec<float, W> p = fma(r * r, poly(r, 0.500016868f, 0.166670114f), r);
    return impl::exp_from_table(t, n, p);
  }
#endif
  x = impl::clamp(x, -104.0f, 89.0f);
  const Vec<float, W> round = like(x, impl::kRound);
  const Vec<float, W> n = fma(x, like(x, 1.44269502f), round) - round;
  Vec<float, W> r = fma(n, like(x, -impl::kLn2High), x);
  r = fma(n, like(x, -impl::kLn2Low), r);
  const Vec<float, W> q =
      poly(r, 0.5f, 0.166665152f, 0.0416663773f, 0.00836939365f, 0.00139429222f);
  return impl::scale(fma(r * r, q, r) + like(x, 1.0f), n);
}

template <int W>
TK_FN Vec<float, W> exp2_float(Vec<float, W> x) {
#if TK_AVX512
  if constexpr (W == 16) {
    const Vec<float, W> round = like(x, impl::kRound / 16);
    const Vec<float, W> t = x + round, n = t - round;
    const Vec<float, W> r = where_or_zero(lt(abs(x), like(x, 256.0f)), x - n);
    return impl::exp_from_table(t, n, r * poly(r, 0.693147182f, 0.240234599f, 0.0555030443f));
  }
#endif
  x = impl::clamp(x, -151.0f, 129.0f);
  const Vec<float, W> round = like(x, impl::kRound), n = x + round - round, r = x - n;
  const Vec<float, W> p = poly(r, 0.693147182f, 0.240226507f, 0.055503577f, 0.00961805973f,
                               0.00133920659f, 0.00015464134f);
  return impl::scale(fma(r, p, like(x, 1.0f)), n);
}

template <int W>
TK_FN Vec<float, W> expm1_float(Vec<float, W> x) {
  const Vec<float, W> a = impl::clamp(x, -30.0f, 89.0f);
  const Vec<float, W> round = like(x, impl::kRound);
  const Vec<float, W> n = fma(a, like(x, 1.44269502f), round) - round;
  Vec<float, W> r = fma(n, like(x, -impl::kLn2High), a);
  r = fma(n, like(x, -impl::kLn2Low), r);
  const Vec<float, W> q =
      poly(r, 0.5f, 0.166666672f, 0.0416664816f, 0.00833320804f, 0.00139335648f, 0.000199442555f);
  const Vec<float, W> p = fma(r * r, q, r);
  // Half of 2^n, which may be 2^128.
  const Vec<float, W> s = impl::scale(like(x, 0.5f), n);
  const Vec<float, W> y = fma(s, p, s - like(x, 0.5f));
  return copysign(y + y, x);
}

namespace impl {

// log(1+f), -0.25 <= f <= 0.5.
template <int W>
TK_FN Vec<float, W> log1p_core(Vec<float, W> f) {
  const Vec<float, W> q = poly(f, 0.333334535f, -0.250001132f, 0.199906677f, -0.166464031f,
                               0.144795462f, -0.131720632f, 0.104798153f, -0.0451455563f);
  return fma(f * f, fma(q, f, like(f, -0.5f)), f);
}

// x = 2^e * (1+f). Zero, infinity, NaN and negative numbers go through e and f on AVX-512, and
// through log_special elsewhere.
template <int W>
struct LogParts {
  Vec<float, W> e, f;
};
template <int W>
TK_FN LogParts<W> log_parts(Vec<float, W> x) {
  const Vec<float, W> one = like(x, 1.0f);
#if TK_AVX512
  if constexpr (W == 16) {
    using namespace avx512;
    // Mantissa in [0.75, 1.5), NaN where negative.
    const F32 m = __builtin_ia32_getmantps512_mask(x.part[0], 2 << 2 | 3, F32{}, -1, kRoundCurrent);
    const F32 e = __builtin_ia32_getexpps512_mask(x.part[0], F32{}, -1, kRoundCurrent);
    const F32 em = __builtin_ia32_getexpps512_mask(m, F32{}, -1, kRoundCurrent);
    return {{e - em}, {m - one.part[0]}};
  }
#endif
  const Mask<W> small = lt(x, like(x, 1.17549435e-38f));
  x = where(small, x * like(x, 8388608.0f), x);
  const Vec<int32_t, W> bits = bitcast<int32_t>(x);
  const Vec<int32_t, W> e = (bits - like(bits, 0x3f400000)) >> 23;
  const Vec<float, W> m = bitcast<float>(bits - (e << 23));
  return {convert_lanes<float>(e) - where_or_zero(small, like(x, 23.0f)), m - one};
}
template <int W>
TK_FN Vec<float, W> log_special(Vec<float, W> x, Vec<float, W> y) {
  if constexpr (kBitMask<W>) return y;
  const Vec<float, W> zero = like(x, 0.0f), inf = like(x, infinity<float>());
  y = where(lt(x, inf), y, x);
  y = where(eq(x, zero), -inf, y);
  return where(lt(x, zero), like(x, quiet_nan<float>()), y);
}

}  // namespace impl

template <int W>
TK_FN Vec<float, W> log_float(Vec<float, W> x) {
  const impl::LogParts<W> s = impl::log_parts(x);
  return impl::log_special(x, fma(s.e, like(x, 0.693147182f), impl::log1p_core(s.f)));
}
template <int W>
TK_FN Vec<float, W> log2_float(Vec<float, W> x) {
  const impl::LogParts<W> s = impl::log_parts(x);
  return impl::log_special(x, fma(impl::log1p_core(s.f), like(x, 1.44269502f), s.e));
}
template <int W>
TK_FN Vec<float, W> log10_float(Vec<float, W> x) {
  const impl::LogParts<W> s = impl::log_parts(x);
  const Vec<float, W> fraction = impl::log1p_core(s.f) * like(x, 0.434294492f);
  return impl::log_special(x, fma(s.e, like(x, 0.301029996f), fraction));
}

template <int W>
TK_FN Vec<float, W> log1p_float(Vec<float, W> x) {
  const Vec<float, W> one = like(x, 1.0f);
  // With u = 1+x = 2^e * m, log1p(x) = e*log(2) + log1p(2^-e*x + (2^-e - 1)), all of it exact.
  const Vec<int32_t, W> bits = bitcast<int32_t>(x + one);
  const Vec<int32_t, W> e = (bits - like(bits, 0x3f400000)) >> 23;
  const Vec<float, W> quarter = bitcast<float>(like(bits, 0x3e800000) - (e << 23));  // 2^-e / 4
  const Vec<float, W> f = fma(quarter, x * like(x, 4.0f), fma(quarter, like(x, 4.0f), -one));
  Vec<float, W> y = fma(convert_lanes<float>(e), like(x, 0.693147182f), impl::log1p_core(f));
  y = where(lt(abs(x), like(x, 1e-5f)), fma(x * x, like(x, -0.5f), x), copysign(y, x));
  y = where(lt(x, like(x, 1e30f)), y, log_float(x));  // 2^-e / 4 is subnormal; infinity, NaN
  y = where(eq(x, -one), like(x, -infinity<float>()), y);
  return where(lt(x, -one), like(x, quiet_nan<float>()), y);
}

namespace impl {

// Beyond it the three-part reduction loses digits; libm does those lanes.
inline constexpr float kTrigLimit = 48000.0f;

// sin(x + quarter*pi/2), |x| <= kTrigLimit.
template <int W>
TK_FN Vec<float, W> sin_core(Vec<float, W> x, int quarter) {
  const Vec<float, W> round = like(x, kRound);
  const Vec<float, W> t = fma(x, like(x, 0.636619747f), round), n = t - round;
  Vec<float, W> r = fma(n, like(x, -0x1.921fb0p0f), x);
  r = fma(n, like(x, -0x1.5110b4p-22f), r);
  r = fma(n, like(x, -0x1.846988p-48f), r);
  const Vec<float, W> s = r * r;
  const Vec<float, W> sine =
      fma(r * s, poly(s, -0.166666552f, 0.00833218452f, -0.000195172062f), r);
  const Vec<float, W> cosine = fma(s * s, poly(s, 0.0416666456f, -0.00138873013f, 2.44306684e-05f),
                                   fma(s, like(x, -0.5f), like(x, 1.0f)));
  const Vec<uint32_t, W> k = bitcast<uint32_t>(t) + broadcast<W>(uint32_t(quarter));
  const Mask<W> odd = ne(k & like(k, 1u), like(k, 0u));
  return flip_sign(where(odd, cosine, sine), (k & like(k, 2u)) << 30);
}

}  // namespace impl

template <int W>
TK_FN Vec<float, W> sin_float(Vec<float, W> x) {
  const Mask<W> fits = le(abs(x), like(x, impl::kTrigLimit));
  if (!mask_all(fits)) [[unlikely]]
    return map_lanes<float>([](float v) { return __builtin_sinf(v); }, x);
  return where(eq(x, like(x, 0.0f)), x, impl::sin_core(x, 0));  // keeps -0
}
template <int W>
TK_FN Vec<float, W> cos_float(Vec<float, W> x) {
  const Mask<W> fits = le(abs(x), like(x, impl::kTrigLimit));
  if (!mask_all(fits)) [[unlikely]]
    return map_lanes<float>([](float v) { return __builtin_cosf(v); }, x);
  return impl::sin_core(x, 1);
}

#if TK_AVX512
namespace impl {
// |x| by the piecewise polynomials of a table whose first interval ends at 1.25 * 2^first_exponent.
TK_FN Vec<float, 16> look_up_poly(const float (&table)[7][32], int first_exponent,
                                  Vec<float, 16> x) {
  using namespace avx512;
  const I32 bits = __builtin_bit_cast(I32, x.part[0]);
  I32 index = (bits >> 21) - ((127 + first_exponent) << 2);
  index = index < 0 ? I32{} : index;
  index = index > 31 ? I32{} + 31 : index;
  auto row = [&](int k) __attribute__((always_inline)) {
    return look_up32(load16(table[k]), load16(table[k] + 16), index);
  };
  // NaN has the last interval, where 0*(x-c) brings it back.
  const F32 d = x.part[0] - row(0);
  F32 y = row(6);
#pragma GCC unroll 8
  for (int k = 5; k >= 1; --k) y = fma(y, d, row(k));
  return {y};
}
}  // namespace impl
#endif

template <int W>
TK_FN Vec<float, W> tanh_float(Vec<float, W> x) {
  const Vec<float, W> a = abs(x), one = like(x, 1.0f);
#if TK_AVX512
  if constexpr (W == 16)
    return copysign(impl::look_up_poly(kTanhTable, kTanhFirstExponent, impl::clamp(a, 0.0f, 20.0f)),
                    x);
#endif
  const Vec<float, W> s = x * x;
  const Vec<float, W> small =
      fma(x * s,
          poly(s, -0.333332837f, 0.133314788f, -0.0537421741f, 0.0206455812f, -0.00571083929f), x);
  const Vec<float, W> big = one - like(x, 2.0f) / (exp_float(a + a) + one);
  return where(lt(a, like(x, 0.625f)), small, copysign(big, x));
}

template <int W>
TK_FN Vec<float, W> erf_float(Vec<float, W> x) {
  const Vec<float, W> a = abs(x), one = like(x, 1.0f);
#if TK_AVX512
  if constexpr (W == 16)
    return copysign(impl::look_up_poly(kErfTable, kErfFirstExponent, impl::clamp(a, 0.0f, 10.0f)),
                    x);
#endif
  const Vec<float, W> s = x * x;
  const Vec<float, W> small = fma(x,
                                  poly(s, 0.128379166f, -0.376126289f, 0.112836242f, -0.026855588f,
                                       0.0051919478f, -0.000804383948f, 7.96966342e-05f),
                                  x);
  const Vec<float, W> t = impl::clamp(a, 0.0f, 4.0f);
  const Vec<float, W> q =
      poly(t, -0.128459796f, -0.636124969f, -0.104098782f, 0.021157641f, -0.00172215106f,
           -0.000552469981f, 0.000228824647f, -3.60668237e-05f, 2.25910139e-06f);
  const Vec<float, W> big = one - exp_float(fma(q, t, -t));
  return where(lt(a, like(x, 0.921875f)), small, copysign(big, x));
}

// Results below 2^-126 may lose digits.
template <int W>
TK_FN Vec<float, W> erfc_float(Vec<float, W> x) {
  const Vec<float, W> one = like(x, 1.0f), four = like(x, 4.0f);
  const Vec<float, W> a = impl::clamp(abs(x), 0.0f, 11.0f);
  // exp(a^2)*erfc(a)*(1+2a) is a smooth function of q.
  const Vec<float, W> r = one / (a + four);
  Vec<float, W> q = (a - four) * r;
  q = fma(r, fma(q, -a, fma(q + one, -four, a)), q);
  const Vec<float, W> p =
      poly(q, 1.23299515f, -0.139621124f, 0.015375766f, 0.068095319f, -0.100964889f, 0.0938172415f,
           -0.0667848662f, 0.0363118872f, -0.0156357661f, 0.00741575845f, 0.00103368144f);
  const Vec<float, W> scaled = p / fma(a, like(x, 2.0f), one);
  // exp(-a^2) with the rounding of a^2 made good.
  const Vec<float, W> s = a * a, rest = fma(-a, a, s);
  const Vec<float, W> e = exp_float(-s);
  const Vec<float, W> y = scaled * fma(e, rest, e);
  return where(lt(x, like(x, 0.0f)), like(x, 2.0f) - y, y);
}

// Results below 6e-39 are flushed to 0.
template <int W>
TK_FN Vec<float, W> sigmoid_float(Vec<float, W> x) {
  const Vec<float, W> one = like(x, 1.0f);
#if TK_AVX512
  if constexpr (W == 16) {
    const Vec<float, W> d = exp_float(-impl::clamp(x, -88.0f, 88.0f)) + one;
    const Vec<float, W> r = {avx512::reciprocal14(d.part[0])};
    const Vec<float, W> y = fma(fma(-d, r, one), r, r);
    return where_or_zero(~lt(x, like(x, -88.0f)), y);
  }
#endif
  return one / (one + exp_float(-x));
}

// Error below 1 ulp.
template <int W>
TK_FN Vec<float, W> rsqrt_float(Vec<float, W> x) {
#if TK_AVX512
  if constexpr (W == 16) {
    const Vec<float, W> r = {avx512::rsqrt14(x.part[0])};
    const Vec<float, W> e = fma(-(x * r), r, like(x, 1.0f));
    // 0, infinity and NaN are right at once; the step would make NaN of them.
    return where(isnan(e), r, fma(r * like(x, 0.5f), e, r));
  }
#endif
  return like(x, 1.0f) / sqrt(x);
}

}  // namespace tk

#endif  // TENSORD_CPU_MATH_FLOAT_H_
