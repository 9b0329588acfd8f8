// SPDX-License-Identifier: Apache-2.0
// Special functions that libm lacks, one number at a time.
#ifndef TENSORD_CPU_SPECIAL_H_
#define TENSORD_CPU_SPECIAL_H_

#include "types.h"

namespace tk::scalar {

// The logarithmic derivative of gamma. Poles give NaN, and -infinity at +0 (+infinity at -0), as
// PyTorch. Method: S. Moshier, Cephes psi(): reflection, recurrence up to 10, asymptotic series.
static inline double digamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double shift = 0;
  if (x < 0) {
    const double fraction = x - __builtin_trunc(x);
    if (fraction == 0) return __builtin_nan("");
    shift = -kPi / __builtin_tan(kPi * fraction);
    x = 1 - x;
  }
  while (x < 10) {
    shift -= 1 / x;
    x += 1;
  }
  double y = 0;
  if (x < 1e17) {
    constexpr double kSeries[] = {8.33333333333333333333e-2, -2.10927960927960927961e-2,
                                  7.57575757575757575758e-3, -4.16666666666666666667e-3,
                                  3.96825396825396825397e-3, -8.33333333333333333333e-3,
                                  8.33333333333333333333e-2};
    const double z = 1 / (x * x);
    for (double c : kSeries) y = y * z + c;
    y *= z;
  }
  return __builtin_log(x) - 0.5 / x - y + shift;
}

// The inverse of erf: NaN outside [-1, 1]. Method: rational start values (as in PyTorch's
// calc_erfinv) and two steps of Newton.
static inline double erfinv(double y) {
  constexpr double a[] = {0.886226899, -1.645349621, 0.914624893, -0.140543331};
  constexpr double b[] = {-2.118377725, 1.442710462, -0.329097515, 0.012229801};
  constexpr double c[] = {-1.970840454, -1.624906493, 3.429567803, 1.641345311};
  constexpr double d[] = {3.543889200, 1.637067800};
  constexpr double kHalfSqrtPi = 0.88622692545275801365;
  const double size = __builtin_fabs(y);
  if (!(size <= 1)) return __builtin_nan("");
  if (size == 1) return __builtin_copysign(__builtin_inf(), y);
  double x;
  if (size <= 0.7) {
    const double z = y * y;
    x = y * (((a[3] * z + a[2]) * z + a[1]) * z + a[0]) /
        ((((b[3] * z + b[2]) * z + b[1]) * z + b[0]) * z + 1);
  } else {
    const double z = __builtin_sqrt(-__builtin_log((1 - size) / 2));
    x = __builtin_copysign(((c[3] * z + c[2]) * z + c[1]) * z + c[0], y) /
        ((d[1] * z + d[0]) * z + 1);
  }
  for (int i = 0; i < 2; ++i) x -= (__builtin_erf(x) - y) * kHalfSqrtPi * __builtin_exp(x * x);
  return x;
}

static inline double lgamma(double x) {
  int sign;  // the reentrant form: lgamma itself writes a global
  return __builtin_lgamma_r(x, &sign);
}
static inline double sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }

}  // namespace tk::scalar

#endif  // TENSORD_CPU_SPECIAL_H_
