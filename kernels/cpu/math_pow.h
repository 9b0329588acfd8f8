// SPDX-License-Identifier: Apache-2.0
// pow of float, through double: log2 to 2^-36 by the series of atanh, exp2 by Taylor's. The error
// is below 1 ulp. Vec<float, W> of one register becomes two of double.
#ifndef TENSORD_CPU_MATH_POW_H_
#define TENSORD_CPU_MATH_POW_H_

#include "math_float.h"

namespace tk {
namespace impl {

// log2(x) for finite x > 0, not subnormal as a double.
template <int W>
TK_FN Vec<double, W> log2_core(Vec<double, W> x) {
  const Vec<uint64_t, W> bits = bitcast<uint64_t>(x);
  // x = 2^e * m with m in [0.75, 1.5); k = e + 1024 stays positive, so that its shift is logical.
  const Vec<uint64_t, W> k = bits - like(bits, 0x3fe8000000000000ull) + like(bits, 1024ull << 52);
  const Vec<uint64_t, W> e_bits = (k & like(bits, 0xfffull << 52)) - like(bits, 1024ull << 52);
  const Vec<double, W> m = bitcast<double>(bits - e_bits);
  // An integer below 2^52 under the exponent of 2^52 is 2^52 plus that integer.
  const Vec<double, W> e =
      bitcast<double>((k >> 52) | like(bits, 0x4330000000000000ull)) - like(x, 0x1p52 + 1024);
  const Vec<double, W> one = like(x, 1.0), s = (m - one) / (m + one), z = s * s;
  constexpr double c = 2.8853900817779268;  // 2 / ln 2
  return fma(s, poly(z, c, c / 3, c / 5, c / 7, c / 9, c / 11, c / 13), e);
}

// 2^x, |x| <= 300.
template <int W>
TK_FN Vec<double, W> exp2_core(Vec<double, W> x) {
  const Vec<double, W> round = like(x, 0x1.8p52), t = x + round;
  const Vec<double, W> f = (x - (t - round)) * like(x, 0.69314718055994531);
  const Vec<double, W> p =
      poly(f, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320);
  const Vec<uint64_t, W> n = bitcast<uint64_t>(t);
  return p * bitcast<double>((n + like(n, 1023ull)) << 52);
}

}  // namespace impl

template <int W>
TK_FN Vec<float, W> pow_float(Vec<float, W> a, Vec<float, W> b) {
  const Vec<float, W> zero = like(a, 0.0f), one = like(a, 1.0f), half = like(a, 0.5f);
  const Vec<float, W> inf = like(a, infinity<float>()), x = abs(a);
  // 1 stands in for what the core does not take.
  const Mask<W> edge = ~(gt(x, zero) & lt(x, inf));
  const Vec<double, W> log = impl::log2_core(convert_lanes<double>(where(edge, one, x)));
  const Vec<float, W> edge_log = where(eq(x, zero), -inf, x);
  Vec<double, W> p = convert_lanes<double>(b) * where(edge, convert_lanes<double>(edge_log), log);
  p = where(lt(p, like(p, -300.0)), like(p, -300.0),
            where(gt(p, like(p, 300.0)), like(p, 300.0), p));
  Vec<float, W> y = convert_lanes<float>(impl::exp2_core(p));

  const Mask<W> negative = ne(sign_bits(a), broadcast<W>(0u));
  const Mask<W> whole = eq(floor(b), b), even = eq(floor(b * half), b * half);
  y = where(negative & whole & ~even, -y, y);
  // A negative base needs a whole exponent; -0 and -infinity do not.
  y = where(lt(a, zero) & lt(x, inf) & ~whole, like(a, quiet_nan<float>()), y);
  y = where(eq(x, one) & isinf(b), one, y);
  return where(eq(b, zero) | eq(a, one), one, y);
}

}  // namespace tk

#endif  // TENSORD_CPU_MATH_POW_H_
