// SPDX-License-Identifier: Apache-2.0
// Special functions, one number at a time, for both preludes: a kernel that uses one includes them
// (kernels/cpu/lift_special.h, kernels/cuda/lift_special.cuh), and no other kernel parses them.
//
// Those of double serve float too: the result is double's, rounded, and so at least as near as
// PyTorch's own in float. Coefficients are PyTorch's, of the sources that each file names.
#ifndef TENSORD_SPECIAL_SPECIAL_H_
#define TENSORD_SPECIAL_SPECIAL_H_

#include "tensord/special/airy.h"
#include "tensord/special/bessel.h"
#include "tensord/special/bits.h"
#include "tensord/special/incomplete_gamma.h"
#include "tensord/special/modified_bessel.h"
#include "tensord/special/normal.h"
#include "tensord/special/polynomials.h"
#include "tensord/special/zeta.h"

// one(name) and two(name) for all functions of one and of two numbers.
#define TK_SPECIAL_FUNCTIONS(one, two)                                                           \
  one(airy_ai) one(bessel_j0) one(bessel_j1) one(bessel_y0) one(bessel_y1) one(bessel_i0)        \
      one(bessel_i1) one(bessel_k0) one(bessel_k1) one(scaled_bessel_i0) one(scaled_bessel_i1)   \
          one(scaled_bessel_k0) one(scaled_bessel_k1) one(erfcx) one(ndtri) one(trigamma)        \
              one(frexp_mantissa) one(frexp_exponent) two(chebyshev_t) two(chebyshev_u)          \
                  two(chebyshev_v) two(chebyshev_w) two(hermite_h) two(hermite_he) two(laguerre) \
                      two(legendre) two(zeta) two(igamma) two(igammac)

#endif  // TENSORD_SPECIAL_SPECIAL_H_
