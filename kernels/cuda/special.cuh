// SPDX-License-Identifier: Apache-2.0
// Special functions that CUDA's library lacks.
#ifndef TENSORD_CUDA_SPECIAL_CUH_
#define TENSORD_CUDA_SPECIAL_CUH_

#include "tensord/cuda/types.cuh"

namespace tk::scalar {

// The logarithmic derivative of gamma. Poles give NaN, and -infinity at +0 (+infinity at -0), as
// PyTorch. Method: S. Moshier, Cephes psi(): reflection, recurrence up to 10, asymptotic series.
TK_CALL double digamma_double(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0) return -1 / x;
  double shift = 0;
  if (x < 0) {
    const double fraction = x - ::trunc(x);
    if (fraction == 0) return quiet_nan<double>();
    shift = -kPi / ::tan(kPi * fraction);
    x = 1 - x;
  }
  while (x < 10) {
    shift -= 1 / x;
    x += 1;
  }
  double y = 0;
  if (x < 1e17) {
    const double z = 1 / (x * x);
    y = 8.33333333333333333333e-2;
    y = y * z - 2.10927960927960927961e-2;
    y = y * z + 7.57575757575757575758e-3;
    y = y * z - 4.16666666666666666667e-3;
    y = y * z + 3.96825396825396825397e-3;
    y = y * z - 8.33333333333333333333e-3;
    y = y * z + 8.33333333333333333333e-2;
    y *= z;
  }
  return ::log(x) - 0.5 / x - y + shift;
}

}  // namespace tk::scalar

#endif  // TENSORD_CUDA_SPECIAL_CUH_
