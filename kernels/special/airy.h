// SPDX-License-Identifier: Apache-2.0
// The Airy function of the first kind: a power series in the middle, asymptotic forms outside.
//
// Coefficients: S. Moshier, Cephes, airy.c. As in PyTorch, whose numbers these are, two
// denominators lack Cephes' leading term, a power with the coefficient 1: the result is off by up
// to 3e-6 just below -2.09.
#ifndef TENSORD_SPECIAL_AIRY_H_
#define TENSORD_SPECIAL_AIRY_H_

#include "tensord/special/series.h"

namespace tk_special {

// Infinities give NaN, as in PyTorch.
TK_SPECIAL double airy_ai(double x) {
  constexpr double kInverseRootPi = 0.56418958354775628695;
  if (is_infinite(x)) return quiet_nan();
  if (x > 103.892) return 0;
  if (x < -2.09) {
    const double zeta = -2 * x * sqrt(-x) / 3, z = 1 / zeta, z2 = z * z;
    const double f =
        1 + z2 *
                horner(z2, -0.1316963234183318, -0.6264565444319123, -0.6931580360369335,
                       -0.2797799815451191, -0.04919001326095003, -0.004062659235948854,
                       -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08) /
                horner(z2, 13.356042070655324, 32.682503279522464, 26.736704094149957,
                       9.187074029072596, 1.4752914677166642, 0.11568717379518804,
                       0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07);
    const double g =
        z *
        horner(z2, 0.01973399320916857, 0.39110302961568827, 1.0657989759959559, 0.9391692298166502,
               0.35146565610554764, 0.06338889196289255, 0.005858041130483885, 0.000282851600836737,
               6.98793669997261e-06, 8.117892395543892e-08, 3.415517847659236e-10) /
        horner(z2, 9.30892908077442, 19.835292871831214, 15.564662893286462, 5.476860694229755,
               0.9542936116189619, 0.08645808263523921, 0.004126565238242226,
               0.00010125908511650914, 1.1716673321441352e-06, 4.9183457006293e-09);
    const double angle = zeta + 0.78539816339744830962;
    return kInverseRootPi / sqrt(sqrt(-x)) * (sin(angle) * f - cos(angle) * g);
  }
  if (x >= 2.09) {
    const double zeta = 2 * x * sqrt(x) / 3, z = 1 / zeta;
    return kInverseRootPi *
           (horner(z, 0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058,
                   159.75639135016442, 70.53609068404442, 14.026469116338967, 1.0) /
            horner(z, 0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045,
                   164.2346928715297, 71.47784008255756, 14.095913560783403, 1.0)) /
           (2 * sqrt(sqrt(x)) * exp(zeta));
  }
  // The two solutions of y'' = x y with values 1 and 0 and slopes 0 and 1 at 0.
  const double cube = x * x * x;
  double even = 1, odd = x, even_term = 1, odd_term = x;
  for (double k = 3; fabs(even_term) > 1e-17 * fabs(even); k += 3) {
    even_term *= cube / (k * (k - 1));
    odd_term *= cube / (k * (k + 1));
    even += even_term;
    odd += odd_term;
  }
  return 0.355028053887817239260 * even - 0.258819403792806798405 * odd;
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_AIRY_H_
