// SPDX-License-Identifier: Apache-2.0
// Of the normal distribution: the scaled complementary error function, and the quantile.
#ifndef TENSORD_SPECIAL_NORMAL_H_
#define TENSORD_SPECIAL_NORMAL_H_

#include "tensord/special/series.h"

namespace tk_special {

// exp(x^2), with the rounding of x^2 made good.
TK_SPECIAL_INLINE double exp_of_square(double x) {
  const double square = x * x, rest = fma(x, x, -square);
  const double y = exp(square);
  return is_infinite(y) ? y : y + y * rest;
}

// exp(x^2) erfc(x): of the library's functions while both have their digits, and from 10 on the
// asymptotic series sum (-1)^k (2k - 1)!! / (2 x^2)^k, DLMF 7.12.1.
TK_SPECIAL double erfcx(double x) {
  if (x < 10) return x < -27 ? infinity() : exp_of_square(x) * erfc(x);
  const double z = -0.5 / (x * x);
  const double sum = horner(z, 7905853580625., 316234143225., 13749310575., 654729075., 34459425.,
                            2027025., 135135., 10395., 945., 105., 15., 3., 1., 1.);
  return 0.56418958354775628695 / x * sum;
}

// The number below which a standard normal variable is with probability p: NaN outside of [0, 1].
// Rational functions of p - 1/2 in the middle and of sqrt(-2 log p) in the tails. Coefficients: S.
// Moshier, Cephes, ndtri.c.
TK_SPECIAL double ndtri(double p) {
  constexpr double kTail = 0.13533528323661269189;  // exp(-2)
  if (p == 0) return -infinity();
  if (p == 1) return infinity();
  if (!(p > 0 && p < 1)) return quiet_nan();
  const bool is_upper = p > 1 - kTail;
  const double tail = is_upper ? 1 - p : p;
  if (tail > kTail) {
    const double y = tail - 0.5, z = y * y;
    const double ratio = horner(z, -59.96335010141079, 98.00107541859997, -56.67628574690703,
                                13.931260938727968, -1.2391658386738125) /
                         horner(z, 1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905,
                                -225.46268785411937, 200.26021238006066, -82.03722561683334,
                                15.90562251262117, -1.1833162112133);
    return 2.50662827463100050242 * (y + y * (z * ratio));
  }
  const double x = sqrt(-2 * log(tail)), z = 1 / x;
  const double ratio =
      x < 8 ? horner(z, 4.0554489230596245, 31.525109459989388, 57.16281922464213,
                     44.08050738932008, 14.684956192885803, 2.1866330685079025, -0.1402560791713545,
                     -0.03504246268278482, -0.0008574567851546854) /
                  horner(z, 1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672,
                         15.04253856929075, 2.504649462083094, -0.14218292285478779,
                         -0.03808064076915783, -0.0009332594808954574)
            : horner(z, 3.2377489177694603, 6.915228890689842, 3.9388102529247444,
                     1.3330346081580755, 0.20148538954917908, 0.012371663481782003,
                     0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09) /
                  horner(z, 1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132,
                         0.21623699359449663, 0.013420400608854318, 0.00032801446468212774,
                         2.8924786474538068e-06, 6.790194080099813e-09);
  const double quantile = x - log(x) / x - z * ratio;
  return is_upper ? quantile : -quantile;
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_NORMAL_H_
