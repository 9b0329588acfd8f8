// SPDX-License-Identifier: Apache-2.0
// The regularized incomplete gamma functions: the lower one P(a, x) and the upper one Q = 1 - P.
//
// Where a and x are large and near each other, Temme's uniform asymptotic expansion (DLMF 8.12,
// with the coefficients of SciPy's incomplete gamma function); else the power series of P, the
// continued fraction of Q, or, for small x and a, the power series of Q (DLMF 8.7, 8.9). Limits are
// those of PyTorch and SciPy.
#ifndef TENSORD_SPECIAL_INCOMPLETE_GAMMA_H_
#define TENSORD_SPECIAL_INCOMPLETE_GAMMA_H_

#include "tensord/special/series.h"

namespace tk_special {

// More terms than any a below 100, or x apart from a, takes.
enum { kMostTerms = 2000 };
TK_SPECIAL_INLINE double term_epsilon() { return 0x1p-54; }

// log(1 + x) - x, for |x| < 1/2: with s = x / (2 + x) it is 2 (atanh(s) - s) - x s.
TK_SPECIAL double log1p_minus(double x) {
  const double s = x / (2 + x), z = s * s;
  const double atanh_rest = z * s *
                            horner(z, 1 / 25., 1 / 23., 1 / 21., 1 / 19., 1 / 17., 1 / 15., 1 / 13.,
                                   1 / 11., 1 / 9., 1 / 7., 1 / 5., 1 / 3.);
  return 2 * atanh_rest - x * s;
}

// x^a exp(-x) / Gamma(a + 1). For large a as exp(a (log1p(d) - d)) / sqrt(2 pi a) with d = x / a -
// 1 and Stirling's correction: powers of large numbers have no digits left.
TK_SPECIAL double gamma_density(double a, double x) {
  if (a < 10) return exp(a * log(x) - x - log_gamma(a + 1));
  const double d = (x - a) / a;
  const double exponent = fabs(d) < 0.4 ? a * log1p_minus(d) : a * log(x / a) + a - x;
  const double z = 1 / (a * a);
  const double stirling =
      horner(z, -691 / 360360., 1 / 1188., -1 / 1680., 1 / 1260., -1 / 360., 1 / 12.) / a;
  return 0.39894228040143267794 / sqrt(a) * exp(exponent - stirling);
}

// P by its power series.
TK_SPECIAL double lower_series(double a, double x) {
  double n = a, term = 1, sum = 1;
  for (int i = 0; i < kMostTerms && term > term_epsilon() * sum; ++i) {
    n += 1;
    term *= x / n;
    sum += term;
  }
  return sum * gamma_density(a, x);
}

// log(Gamma(1 + a)), with the digits that 1 + a does not have. Source: Abramowitz and
// Stegun, 6.1.33.
TK_SPECIAL double log_gamma_above_1(double a) {
  if (a > 0.5) return log_gamma(1 + a);
  const double series = horner(
      a, 5.731367241678862e-10, -1.1921401405860912e-09, 2.4836745438024785e-09,
      -5.183475041970047e-09, 1.0838659214896955e-08, -2.2711094608943164e-08,
      4.7698101693639804e-08, -1.0043224823968099e-07, 2.1207184805554665e-07,
      -4.492469198764566e-07, 9.55141213040742e-07, -2.039215753801366e-06, 4.374866789907488e-06,
      -9.439488275268397e-06, 2.050721277567069e-05, -4.492623673813314e-05, 9.945751278180853e-05,
      -0.00022315475845357939, 0.0005096695247430425, -0.001192753911703261, 0.0028905103307415234,
      -0.007385551028673986, 0.020580808427784546, -0.0673523010531981, 0.3224670334241132);
  return a * (0.42278433509846713939 + a * series) - log1p(a);
}

// Q by its power series: small a and x, where 1 - P has no digits.
TK_SPECIAL double upper_series(double a, double x) {
  double power = 1, sum = 0;
  for (int n = 1; n < kMostTerms; ++n) {
    power *= -x / n;
    const double term = power / (a + n);
    sum += term;
    if (fabs(term) <= term_epsilon() * fabs(sum)) break;
  }
  // 1 - x^a / Gamma(a + 1), and the rest.
  const double exponent = a * log(x) - log_gamma_above_1(a);
  return -TK_LIBRARY(expm1)(exponent) - exp(exponent) * a * sum;
}

// Q by its continued fraction, in Lentz's form (W. J. Lentz, Applied Optics 15, 1976).
TK_SPECIAL double upper_fraction(double a, double x) {
  double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double numerator = n * (a - n);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    const double step = c * d;
    fraction *= step;
    if (fabs(step - 1) <= 2 * term_epsilon()) break;
  }
  return fraction * a * gamma_density(a, x);
}

TK_SPECIAL_INLINE bool is_asymptotic(double a, double x) {
  return a > 100 && fabs(x - a) < 0.3 * a;
}
// Q for sign = 1, P for sign = -1.
TK_SPECIAL double asymptotic(double a, double x, double sign) {
  const double d = (x - a) / a, half_square = -log1p_minus(d);
  const double eta = (x < a ? -1 : 1) * sqrt(2 * half_square);
  const double sum =
      horner(1 / a, horner(eta, 0.00034436760689237765),
             horner(eta, 0.0002708782096718045, -0.0005921664373536939, 0.0005313079364639922),
             horner(eta, -1.3594048189768693e-05, 1.419062920643967e-07, 6.797780477937208e-05,
                    -0.00019932570516188847, 0.0002772753244959392, -6.972813758365858e-05,
                    -0.00033679855336635813),
             horner(eta, -1.6954149536558305e-06, 2.507497226237533e-10, 1.1375726970678419e-05,
                    -3.968365047179435e-05, 6.641498215465122e-05, -1.4638452578843418e-06,
                    -0.0002990724803031902, 0.0007840392217200666, -0.0008618882909167117),
             horner(eta, -1.6958404091930278e-07, -2.7861080291528143e-11, 1.4230900732435883e-06,
                    -5.6749528269915965e-06, 1.1082654115347302e-05, -2.396505113867297e-07,
                    -7.561801671883977e-05, 0.00026772063206283885, -0.0004691894943952557,
                    0.00022947209362139917, 0.0006494341563786008),
             horner(eta, -1.409252991086752e-08, -2.0477098421990866e-10, 1.4280614206064242e-07,
                    -6.298992138380055e-07, 1.3721957309062932e-06, 3.423578734096138e-08,
                    -1.2760635188618728e-05, 5.2923448829120125e-05, -0.00010736653226365161,
                    2.0093878600823047e-06, 0.0007716049382716049, -0.0026813271604938273,
                    0.004133597883597883),
             horner(eta, -1.0091543710600413e-09, -1.7543241719747647e-11, 1.1951628599778148e-08,
                    -5.752545603517705e-08, 1.378633446915721e-07, 4.647127802807434e-09,
                    -1.6120900894563446e-06, 7.64916091608111e-06, -1.8098550334489977e-05,
                    -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596,
                    0.0026455026455026454, -0.003472222222222222, -0.001851851851851852),
             horner(eta, -2.551419399494625e-11, 9.14769958223679e-10, -4.382036018453353e-09,
                    1.0261809784240309e-08, 6.707853543401498e-09, -1.7665952736826078e-07,
                    8.296711340953087e-07, -1.85406221071516e-06, -2.1854485106799924e-06,
                    3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194,
                    0.0011574074074074073, -0.014814814814814815, 0.08333333333333333,
                    -0.3333333333333333));
  const double rest = exp(-a * half_square) * 0.39894228040143267794 / sqrt(a) * sum;
  return 0.5 * erfc(sign * eta * sqrt(a / 2)) + sign * rest;
}

// What both functions say at the ends of their domain, P as `lower` and Q as `upper`; false inside.
TK_SPECIAL_INLINE bool is_limit(double a, double x, double* lower, double* upper) {
  const auto is = [&](double p, double q) {
    *lower = p;
    *upper = q;
    return true;
  };
  const double nan = quiet_nan();
  if (x < 0 || a < 0) return is(nan, nan);
  if (a == 0) return x > 0 ? is(1, 0) : is(nan, nan);
  if (x == 0) return is(0, 1);
  if (is_infinite(a)) return is_infinite(x) ? is(nan, nan) : is(0, 1);
  if (is_infinite(x)) return is(1, 0);
  return a != a || x != x ? is(nan, nan) : false;
}

// Q where no limit and no asymptotic expansion says it.
TK_SPECIAL double upper_inside(double a, double x) {
  if (x > 1.1) return x < a ? 1 - lower_series(a, x) : upper_fraction(a, x);
  const bool by_lower = x <= 0.5 ? -0.4 / log(x) < a : x * 1.1 < a;
  return by_lower ? 1 - lower_series(a, x) : upper_series(a, x);
}

TK_SPECIAL double igamma(double a, double x) {
  double lower, upper;
  if (is_limit(a, x, &lower, &upper)) return lower;
  if (is_asymptotic(a, x)) return asymptotic(a, x, -1);
  return x > 1 && x > a ? 1 - upper_inside(a, x) : lower_series(a, x);
}

TK_SPECIAL double igammac(double a, double x) {
  double lower, upper;
  if (is_limit(a, x, &lower, &upper)) return upper;
  if (is_asymptotic(a, x)) return asymptotic(a, x, 1);
  return upper_inside(a, x);
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_INCOMPLETE_GAMMA_H_
