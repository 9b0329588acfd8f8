// SPDX-License-Identifier: Apache-2.0
// Bessel functions of the first and second kind, of orders 0 and 1: rational functions of x^2 up to
// 5, beyond it those of a modulus and a phase (Hankel's asymptotic form).
//
// Coefficients: S. Moshier, Cephes, j0.c and j1.c. As in PyTorch, whose numbers these are, the
// denominators lack Cephes' leading term, a power with the coefficient 1: the results are off by up
// to 1e-6 next to 5, and right to 1e-8 below 4 and beyond 9.
#ifndef TENSORD_SPECIAL_BESSEL_H_
#define TENSORD_SPECIAL_BESSEL_H_

#include "tensord/special/series.h"

namespace tk_special {

// Beyond 5 a function of order n is (p cos(a) - q sin(a)) / sqrt(pi x / 2), or (p sin(a) +
// q cos(a)) / sqrt(pi x / 2) of the second kind, with a = x - (2 n + 1) pi / 4.
struct Hankel {
  double p, q;
};
TK_SPECIAL Hankel hankel0(double x) {
  const double z = 25 / (x * x);
  const double p = horner(z, 0.0007969367292973471, 0.08283523921074408, 1.239533716464143,
                          5.447250030587687, 8.74716500199817, 5.303240382353949, 1.0) /
                   horner(z, 0.0009244088105588637, 0.08562884743544745, 1.2535274390105895,
                          5.470977403304171, 8.761908832370695, 5.306052882353947, 1.0);
  const double q =
      horner(z, -0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683,
             -177.68116798048806, -147.07750515495118, -51.41053267665993, -6.050143506007285) /
      horner(z, 64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525,
             5930.727011873169, 2062.0933166032783, 242.0057402402914);
  return {p, 5 / x * q};
}
TK_SPECIAL Hankel hankel1(double x) {
  const double z = 25 / (x * x);
  const double p = horner(z, 0.0007621256162081731, 0.07313970569409176, 1.1271960812968493,
                          5.112079511468076, 8.424045901417724, 5.214515986823615, 1.0) /
                   horner(z, 0.0005713231280725487, 0.06884559087544954, 1.105142326340617,
                          5.073863861286015, 8.399855543276042, 5.209828486823619, 1.0);
  const double q =
      horner(z, 0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508,
             710.8563049989261, 597.4896124006136, 211.68875710057213, 25.207020585802372) /
      horner(z, 74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562,
             7997.041604473507, 2826.1927851763908, 336.0936078106983);
  return {p, 5 / x * q};
}

// sqrt(2) times the sine and cosine of x - pi / 4, without the rounding of that difference; those
// of x - 3 pi / 4 are minus the cosine, and the sine.
struct Phase {
  double sine, cosine;
};
TK_SPECIAL Phase phase_of(double x) {
  const double s = sin(x), c = cos(x);
  return {s - c, s + c};
}

TK_SPECIAL_INLINE double inverse_root_pi_over(double x) {
  constexpr double kInverseRootPi = 0.56418958354775628695;
  return kInverseRootPi / sqrt(x);
}

TK_SPECIAL double bessel_j0(double x) {
  x = fabs(x);
  const double z = x * x;
  if (x < 1e-5) return 1 - z / 4;
  if (x <= 5) {
    // The squares of the first two zeros.
    return (z - 5.78318596294678452118) * (z - 30.4712623436620863991) *
           horner(z, -4794432209.782018, 1956174919465.5657, -249248344360967.72,
                  9708622510473064.0) /
           horner(z, 499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683,
                  2112775201154.892, 310518229857422.56, 3.1812195594320496e+16,
                  1.7108629408104315e+18);
  }
  const Hankel h = hankel0(x);
  const Phase a = phase_of(x);
  return (h.p * a.cosine - h.q * a.sine) * inverse_root_pi_over(x);
}

TK_SPECIAL double bessel_j1(double x) {
  const double size = fabs(x);
  if (size <= 5) {
    const double z = x * x;
    return horner(z, -899971225.7055594, 452228297998.19403, -72749424522181.83,
                  3682957328638529.0) /
           horner(z, 620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925,
                  4749141220799.914, 784369607876235.9, 8.952223361846274e+16,
                  5.322786203326801e+18) *
           x * (z - 14.6819706421238932572) * (z - 49.2184563216946036703);
  }
  const Hankel h = hankel1(size);
  const Phase a = phase_of(size);
  const double y = (h.q * a.cosine + h.p * a.sine) * inverse_root_pi_over(size);
  return x < 0 ? -y : y;
}

// -infinity at 0, NaN below it.
TK_SPECIAL double bessel_y0(double x) {
  if (x == 0) return -infinity();
  if (x < 0) return quiet_nan();
  if (x <= 5) {
    const double z = x * x;
    return horner(z, 15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115,
                  87590639439536.7, -3466283033847297.0, 4.4273326857256984e+16,
                  -1.8495080043698668e+16) /
               horner(z, 1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935,
                      20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17) +
           0.63661977236758134308 * log(x) * bessel_j0(x);
  }
  const Hankel h = hankel0(x);
  const Phase a = phase_of(x);
  return (h.p * a.sine + h.q * a.cosine) * inverse_root_pi_over(x);
}

TK_SPECIAL double bessel_y1(double x) {
  if (x == 0) return -infinity();
  if (x < 0) return quiet_nan();
  if (x <= 5) {
    const double z = x * x;
    return x * (horner(z, 1263204747.9017804, -647355876379.1603, 114509511541823.73,
                       -8127702555013251.0, 2.024394757135949e+17, -7.788771962659501e+17) /
                horner(z, 594.3015923461282, 235564.09294306856, 73481194.44597217,
                       18760131610.870617, 3882312774962.3857, 620557727146953.8,
                       6.871410873553005e+16, 3.9727060811656064e+18)) +
           0.63661977236758134308 * (bessel_j1(x) * log(x) - 1 / x);
  }
  const Hankel h = hankel1(x);
  const Phase a = phase_of(x);
  return (h.q * a.sine - h.p * a.cosine) * inverse_root_pi_over(x);
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_BESSEL_H_
