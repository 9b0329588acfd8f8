// SPDX-License-Identifier: Apache-2.0
// References of the special functions of compiler/loop_ir/ops.def, in long double: other methods
// than those of kernels/special where there are some, and PyTorch's limits.
#ifndef TENSORD_TESTS_UNIT_TESTING_SPECIAL_REFERENCE_H_
#define TENSORD_TESTS_UNIT_TESTING_SPECIAL_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace tensord::testing::ref {

using Real = long double;
constexpr Real kPi = std::numbers::pi_v<Real>;
constexpr Real kInf = std::numeric_limits<Real>::infinity();
constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();

// ---- Polynomials: P(n) of P(0) = 1, P(1) = first and P(k+1) = step(k, P(k), P(k-1))

template <class Step>
Real polynomial(Real n, Real first, Step step) {
  const auto degree = static_cast<int64_t>(n);
  if (degree < 0) return 0;
  Real before = 1, last = first;
  if (degree == 0) return before;
  for (int64_t k = 1; k < degree; ++k) {
    const Real next = step(k, last, before);
    before = last;
    last = next;
  }
  return last;
}
// All four kinds.
inline Real chebyshev(Real x, Real n, Real first) {
  return polynomial(n, first, [x](Real, Real p, Real q) { return 2 * x * p - q; });
}
inline Real hermite_h(Real x, Real n) {
  return polynomial(n, 2 * x, [x](Real k, Real p, Real q) { return 2 * x * p - 2 * k * q; });
}
inline Real hermite_he(Real x, Real n) {
  return polynomial(n, x, [x](Real k, Real p, Real q) { return x * p - k * q; });
}
inline Real laguerre(Real x, Real n) {
  return polynomial(
      n, 1 - x, [x](Real k, Real p, Real q) { return ((2 * k + 1 - x) * p - k * q) / (k + 1); });
}
inline Real legendre(Real x, Real n) {
  return polynomial(
      n, x, [x](Real k, Real p, Real q) { return ((2 * k + 1) * x * p - k * q) / (k + 1); });
}

// ---- Bessel functions, those of the C library

inline Real bessel_j0(Real x) { return std::isinf(x) ? kNan : ::j0l(x); }
inline Real bessel_j1(Real x) { return std::isinf(x) ? kNan : ::j1l(x); }
inline Real bessel_y0(Real x) { return std::isinf(x) || x < 0 ? kNan : x == 0 ? -kInf : ::y0l(x); }
inline Real bessel_y1(Real x) { return std::isinf(x) || x < 0 ? kNan : x == 0 ? -kInf : ::y1l(x); }

// The asymptotic series of modified functions without its factor: sum of a(k) (+-x)^-k, DLMF
// 10.40.1.
inline Real modified_asymptotic(int order, Real x) {
  Real term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    const Real next = term * (4 * order * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    if (std::fabs(next) >= std::fabs(term)) break;
    term = next;
    sum += term;
  }
  return sum;
}
// exp(-|x|) I(x): a series of positive terms, or the asymptotic one.
inline Real scaled_bessel_i(int order, Real x) {
  const Real size = std::fabs(x);
  if (std::isnan(x)) return x;
  Real y = 0;
  if (size > 40) {
    y = modified_asymptotic(order, -size) / std::sqrt(2 * kPi * size);
  } else {
    Real term = order == 0 ? 1 : size / 2;
    for (int k = 1; term > 0x1p-80L * y || k < 3; ++k) {
      y += term;
      term *= size * size / 4 / (k * (k + order));
      if (term == 0) break;
    }
    y *= std::exp(-size);
  }
  return order == 1 && x < 0 ? -y : y;
}
inline Real bessel_i(int order, Real x) {
  return std::isinf(x) ? kNan : std::exp(std::fabs(x)) * scaled_bessel_i(order, x);
}
// exp(x) K(x)
inline Real scaled_bessel_k(int order, Real x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInf;
  if (x > 40) return modified_asymptotic(order, x) * std::sqrt(kPi / (2 * x));
  return std::cyl_bessel_k(static_cast<Real>(order), x) * std::exp(x);
}
inline Real bessel_k(int order, Real x) { return std::exp(-x) * scaled_bessel_k(order, x); }

// By functions of order 1/3, DLMF 9.6.
inline Real airy_ai(Real x) {
  if (std::isnan(x) || std::isinf(x)) return kNan;
  const Real third = 1 / Real(3), zeta = 2 * third * std::pow(std::fabs(x), Real(1.5));
  if (std::fabs(x) < 1e-8L) return 0.3550280538878172392600632L - 0.2588194037928067984051836L * x;
  if (x > 0) return std::sqrt(x * third) / kPi * std::cyl_bessel_k(third, zeta);
  const Real j = std::cyl_bessel_j(third, zeta), y = std::cyl_neumann(third, zeta);
  return std::sqrt(-x) * third * (1.5L * j - std::sqrt(Real(3)) / 2 * y);
}

// ---- The normal distribution

inline Real erfcx(Real x) {
  if (x < 50) return std::exp(x * x) * std::erfc(x);
  const Real z = 1 / (2 * x * x);
  return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * std::sqrt(kPi));
}
// Newton's method on the logarithm, which is concave: it comes from the left.
inline Real ndtri(Real p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0 || p == 1) return p == 0 ? -kInf : kInf;
  if (p > 0.5L) return -ndtri(1 - p);
  Real x = -std::sqrt(-2 * std::log(p));
  for (int i = 0; i < 12; ++i) {
    const Real cdf = std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2;
    const Real pdf = std::exp(-x * x / 2) / std::sqrt(2 * kPi);
    const Real step = std::log(cdf / p) * cdf / pdf;
    x -= step;
    if (std::fabs(step) < 1e-18L * std::fabs(x)) break;
  }
  return x;
}

// ---- Gamma and zeta

// The sum of (q + k)^-x by 40 terms and the remainder of Euler and Maclaurin.
inline Real zeta(Real x, Real q) {
  if (x == 1) return kInf;
  if (!(x > 1)) return kNan;
  if (q <= 0 && q == std::floor(q)) return kInf;
  if (q < 0 && x != std::floor(x)) return kNan;
  if (std::isinf(x)) return q == 1 ? 1 : q < 1 ? kInf : kNan;
  Real sum = 0, a = q;
  for (int k = 0; k < 40 || a < 40; ++k, a += 1) sum += std::pow(a, -x);
  constexpr Real kBernoulli[] = {1 / 6.L,  -1 / 30.L,     1 / 42.L, -1 / 30.L,
                                 5 / 66.L, -691 / 2730.L, 7 / 6.L};
  const Real last = std::pow(a, -x);
  sum += last * a / (x - 1) + last / 2;
  Real factor = last * x / a / 2;
  for (int j = 0; j < 7; ++j) {
    sum += kBernoulli[j] * factor;
    const int next = 2 * j + 1;
    factor *= (x + next) * (x + next + 1) / (a * a * (next + 2) * (next + 3));
  }
  return sum;
}
// Poles of negative integers are as finite as PyTorch's, for pi and its sine are rounded.
inline Real trigamma(Real x) {
  if (std::isnan(x) || x == -kInf) return kNan;
  if (x == kInf) return 0;
  if (x >= 0.5L) return zeta(2, x);
  constexpr double kRounded = std::numbers::pi;
  const double sine = std::sin(kRounded * static_cast<double>(x));
  return kRounded * kRounded / (Real(sine) * sine) - zeta(2, 1 - x);
}

// The upper part of the regularized incomplete gamma function where x > a + 1, else the lower one.
inline Real gamma_part(Real a, Real x) {
  const Real density = std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  if (x <= a + 1) {
    Real term = 1, sum = 1;
    for (Real n = a + 1; term > 1e-21L * sum; n += 1) sum += term *= x / n;
    return sum * density;
  }
  Real b = x + 1 - a, c = 1e300L, d = 1 / b, fraction = d;
  for (int n = 1; n < 5000; ++n) {
    const Real numerator = n * (a - n);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    fraction *= c * d;
    if (std::fabs(c * d - 1) < 1e-19L) break;
  }
  return fraction * a * density;
}
inline bool has_no_gamma(Real a, Real x) {
  return !(a >= 0 && x >= 0) || (a == 0 && x == 0) || (std::isinf(a) && std::isinf(x));
}
inline Real igamma(Real a, Real x) {
  if (has_no_gamma(a, x)) return kNan;
  if (std::isinf(a) || std::isinf(x)) return std::isinf(x);
  if (a == 0) return 1;
  if (x == 0) return 0;
  return x <= a + 1 ? gamma_part(a, x) : 1 - gamma_part(a, x);
}
// Where the lower part is nearly 1 there are digits enough in long double, but for small a: there
// x^a / Gamma(1 + a) is 1 and the rest is a power series.
inline Real igammac(Real a, Real x) {
  if (has_no_gamma(a, x)) return kNan;
  if (std::isinf(a) || std::isinf(x)) return std::isinf(a);
  if (a == 0) return 0;
  if (x == 0) return 1;
  if (a < 1e-3L && x <= a + 1) {
    const Real log_gamma =
        a *
        (-0.57721566490153286061L +
         a * (kPi * kPi / 12 + a * (-0.40068563438653142847L + a * (kPi * kPi * kPi * kPi / 360 -
                                                                    a * 0.20738555102867398527L))));
    Real sum = 0, power = 1;
    for (int k = 1; k < 60; ++k) sum += (power *= -x / k) / (a + k);
    const Real exponent = a * std::log(x) - log_gamma;
    return -std::expm1(exponent) - a * std::exp(exponent) * sum;
  }
  return x <= a + 1 ? 1 - gamma_part(a, x) : gamma_part(a, x);
}

// ---- Parts of a number

inline Real frexp_mantissa(Real x) {
  int exponent;
  return std::isfinite(x) ? std::frexp(x, &exponent) : x;
}
inline Real frexp_exponent(Real x) {
  int exponent = 0;
  if (std::isfinite(x)) std::frexp(x, &exponent);
  return exponent;
}

}  // namespace tensord::testing::ref

#endif  // TENSORD_TESTS_UNIT_TESTING_SPECIAL_REFERENCE_H_
