// SPDX-License-Identifier: Apache-2.0
// What the special functions promise beyond the tolerances of compiler/loop_ir/ops.def: limits, and
// digits where the random operands there are few.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensord/special/special.h"

namespace tensord::testing {
namespace cpu_special_test {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void ExpectNear(double got, double want, double relative, double at) {
  EXPECT_LE(std::fabs(got - want), relative * std::fabs(want))
      << got << ", not " << want << ", at " << at;
}
void ExpectSame(double got, double want) {
  EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << ", not " << want;
}

// Expected: torch.special of these numbers.
TEST(SpecialFunctions, HaveTheLimitsOfEager) {
  for (double x : {kInf, -kInf, kNan}) {
    ExpectSame(tk_special::bessel_j0(x), kNan);
    ExpectSame(tk_special::bessel_j1(x), kNan);
    ExpectSame(tk_special::bessel_y0(x), kNan);
    ExpectSame(tk_special::bessel_y1(x), kNan);
    ExpectSame(tk_special::airy_ai(x), kNan);
    ExpectSame(tk_special::bessel_i0(x), kNan);
    ExpectSame(tk_special::bessel_i1(x), kNan);
    ExpectSame(tk_special::ndtri(x), kNan);
  }
  ExpectSame(tk_special::bessel_y0(0), -kInf);
  ExpectSame(tk_special::bessel_y1(-1), kNan);
  ExpectSame(tk_special::bessel_k0(0), kInf);
  ExpectSame(tk_special::bessel_k0(kInf), 0);
  ExpectSame(tk_special::scaled_bessel_k1(-1), kNan);
  ExpectSame(tk_special::scaled_bessel_i1(-kInf), 0);
  ExpectSame(tk_special::erfcx(-kInf), kInf);
  ExpectSame(tk_special::erfcx(kInf), 0);
  ExpectSame(tk_special::ndtri(0), -kInf);
  ExpectSame(tk_special::ndtri(1), kInf);
  ExpectSame(tk_special::trigamma(0), kInf);
  ExpectSame(tk_special::trigamma(kInf), 0);
  ExpectSame(tk_special::trigamma(-kInf), kNan);
  EXPECT_TRUE(std::signbit(tk_special::bessel_j1(-0.0)));
}

TEST(SpecialFunctions, ZetaHasTheLimitsOfEager) {
  const struct {
    double x, q, value;
  } cases[] = {{1, 5, kInf},
               {0.5, 5, kNan},
               {2, 0, kInf},
               {2, -3, kInf},
               {2.5, -1.5, kNan},
               {kInf, 1, 1},
               {kInf, 0.5, kInf},
               {kInf, 2, kNan},
               {1e30, 2, kNan},
               {2, 1e30, 1e-30},
               {kNan, 0.5, kNan},
               {2, kNan, kNan},
               {2, -1.5, 9.3792466449891238}};
  for (const auto& c : cases) {
    const double got = tk_special::zeta(c.x, c.q);
    if (std::isfinite(c.value)) {
      ExpectNear(got, c.value, 1e-14, c.q);
    } else {
      ExpectSame(got, c.value);
    }
  }
}

// zeta(x, q) - zeta(x, q + 1) is q^-x, and zeta(2, 1) is pi^2 / 6.
TEST(SpecialFunctions, ZetaHasItsDigitsForAllPositiveNumbers) {
  for (double x = 1.01; x < 40; x *= 1.3) {
    for (double q = 0.03; q < 3; q *= 1.7) {
      const double first = std::pow(q, -x);
      ExpectNear(tk_special::zeta(x, q), first + tk_special::zeta(x, q + 1), 1e-14, q);
    }
  }
  ExpectNear(tk_special::zeta(2, 1), 1.6449340668482264365, 1e-15, 1);
  ExpectNear(tk_special::trigamma(1), 1.6449340668482264365, 1e-15, 1);
}

TEST(SpecialFunctions, IncompleteGammasHaveTheLimitsOfEager) {
  const struct {
    double a, x, lower, upper;
  } cases[] = {{0, 0, kNan, kNan},  {0, 1, 1, 0},         {1, 0, 0, 1},
               {kInf, 1, 0, 1},     {1, kInf, 1, 0},      {kInf, kInf, kNan, kNan},
               {-1, 1, kNan, kNan}, {1, -1, kNan, kNan},  {kNan, kInf, 1, 0},
               {kNan, 0, 0, 1},     {kNan, 1, kNan, kNan}};
  for (const auto& c : cases) {
    ExpectSame(tk_special::igamma(c.a, c.x), c.lower);
    ExpectSame(tk_special::igammac(c.a, c.x), c.upper);
  }
}

// Both parts are 1 together, and each grows by the density: across the borders of all methods.
TEST(SpecialFunctions, IncompleteGammasFitTogether) {
  for (double a : {1e-8, 0.01, 0.4, 0.6, 1.0, 5.0, 9.9, 30.0, 99.0, 101.0, 1e3, 1e6, 1e9}) {
    for (double ratio : {1e-3, 0.3, 0.69, 0.71, 0.97, 1.0, 1.001, 1.29, 1.31, 3.0}) {
      const double x = a * ratio;
      const double lower = tk_special::igamma(a, x), upper = tk_special::igammac(a, x);
      EXPECT_NEAR(lower + upper, 1, 1e-13) << a << ", " << x;
      // P(a, x) = P(a + 1, x) + x^a exp(-x) / Gamma(a + 1)
      if (a > 1e4) continue;
      const double density = std::exp(a * std::log(x) - x - std::lgamma(a + 1));
      EXPECT_NEAR(lower, tk_special::igamma(a + 1, x) + density, 1e-11) << a << ", " << x;
    }
  }
  ExpectNear(tk_special::igammac(1e-20, 0.5), 1e-20 * 0.55977359477616081175, 1e-14, 0.5);
  ExpectNear(tk_special::igamma(1e12, 1e12), 0.5 + 1.3298076013381e-7, 1e-13, 1e12);
}

TEST(SpecialFunctions, PartsMakeTheNumber) {
  for (double x : {0.0, -0.0, 1.0, -3.5, 5e-324, -1e-310, 1.7e308, 0.5, 0x1p-1022}) {
    int exponent;
    EXPECT_EQ(tk_special::frexp_mantissa(x), std::frexp(x, &exponent));
    EXPECT_EQ(tk_special::frexp_exponent(x), exponent);
  }
  ExpectSame(tk_special::frexp_mantissa(-kInf), -kInf);
  ExpectSame(tk_special::frexp_exponent(kNan), 0);
}

// Expected: torch.special of these numbers.
TEST(SpecialFunctions, DegreesAreTruncated) {
  EXPECT_EQ(tk_special::legendre(0.5f, 2.9f), -0.125f);
  EXPECT_EQ(tk_special::chebyshev_t(3.0f, -0.5f), 1.0f);
  EXPECT_EQ(tk_special::chebyshev_t(3.0f, -1.0f), 0.0f);
  for (float none : {NAN, INFINITY, -INFINITY, 1e30f}) {
    EXPECT_EQ(tk_special::chebyshev_u(0.5f, none), 0.0f);
    EXPECT_EQ(tk_special::hermite_h(0.5f, none), 0.0f);
  }
  EXPECT_TRUE(std::isnan(tk_special::hermite_he(0.0f, 129.0f)));
  EXPECT_TRUE(std::isfinite(tk_special::hermite_he(0.0, 129.0)));
}

// Near the ends of (-1, 1) the trigonometric forms meet the values at the ends.
TEST(SpecialFunctions, ChebyshevPolynomialsMeetTheirEnds) {
  for (double n : {3.0, 20.0, 1001.0}) {
    const double sign = std::fmod(n, 2) == 0 ? 1 : -1;
    const double low = std::nextafter(-1.0, 0.0), high = std::nextafter(1.0, 0.0);
    ExpectNear(tk_special::chebyshev_t(low, n), sign, 1e-9, n);
    ExpectNear(tk_special::chebyshev_u(low, n), sign * (n + 1), 1e-6, n);
    ExpectNear(tk_special::chebyshev_v(low, n), sign * (2 * n + 1), 1e-6, n);
    ExpectNear(tk_special::chebyshev_w(low, n), sign, 1e-6, n);
    ExpectNear(tk_special::chebyshev_u(high, n), n + 1, 1e-6, n);
    ExpectNear(tk_special::chebyshev_v(high, n), 1, 1e-6, n);
    ExpectNear(tk_special::chebyshev_w(high, n), 2 * n + 1, 1e-6, n);
  }
}

}  // namespace cpu_special_test
}  // namespace tensord::testing
