// SPDX-License-Identifier: Apache-2.0
// Hurwitz's zeta function and the derivative of digamma, by sums whose remainder is Euler and
// Maclaurin's.
#ifndef TENSORD_SPECIAL_ZETA_H_
#define TENSORD_SPECIAL_ZETA_H_

#include "tensord/special/series.h"

namespace tk_special {

// The sum of (q + k)^-x over k >= 0. Method and limits: S. Moshier, Cephes, zeta.c: infinity at
// x = 1 and where q is 0 or a negative integer, NaN for x < 1 and for fractional powers of negative
// numbers.
TK_SPECIAL double zeta(double x, double q) {
  constexpr double kEpsilon = 0x1p-53;
  if (x == 1) return infinity();
  if (x < 1) return quiet_nan();
  if (q <= 0) {
    if (q == floor(q)) return infinity();
    if (x != floor(x)) return quiet_nan();
  }
  double sum = pow(q, -x), a = q, term = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    term = pow(a, -x);
    sum += term;
    if (-kEpsilon * sum < term && term < kEpsilon * sum) return sum;
  }
  sum += term * a / (x - 1);
  sum -= 0.5 * term;
  double factor = 1, k = 0;
  bool is_exact = false;
  // (2j)! / B(2j) of Bernoulli's numbers.
  const auto add = [&](double divisor) {
    if (is_exact) return;
    factor *= x + k;
    term /= a;
    const double next = factor * term / divisor;
    sum += next;
    is_exact = fabs(next / sum) < kEpsilon;
    factor *= x + k + 1;
    term /= a;
    k += 2;
  };
  const auto add_all = [&](auto... divisors) { (add(divisors), ...); };
  add_all(12., -720., 30240., -1209600., 47900160., -1.8924375803183791606e9, 7.47242496e10,
          -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
          1.8152105401943546773e17, -7.1661652561756670113e18);
  return sum;
}

// The derivative of digamma: reflection, recurrence up to 12, asymptotic series (DLMF 5.15.8).
TK_SPECIAL double trigamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  double sum = 0, sign = 1;
  if (x < 0.5) {
    const double sine = sin(kPi * x);
    sum = -(kPi * kPi) / (sine * sine);
    sign = -1;
    x = 1 - x;
  }
  for (; x < 12; x += 1) sum += 1 / (x * x);
  const double z = 1 / (x * x);
  const double series =
      horner(z, 7 / 6., -691 / 2730., 5 / 66., -1 / 30., 1 / 42., -1 / 30., 1 / 6.);
  return sign * (sum + (1 + 0.5 / x + z * series) / x);
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_ZETA_H_
