// SPDX-License-Identifier: Apache-2.0
// The mantissa and the exponent of a number.
#ifndef TENSORD_SPECIAL_BITS_H_
#define TENSORD_SPECIAL_BITS_H_

#include "tensord/special/series.h"

namespace tk_special {

// x = mantissa 2^exponent, with the mantissa in [1/2, 1); 0, infinities and NaN are their own
// mantissas, with the exponent 0.
struct Parts {
  double mantissa, exponent;
};
TK_SPECIAL Parts parts_of(double x) {
  if (x == 0 || x != x || is_infinite(x)) return {x, 0};
  double bias = -1022;
  if (fabs(x) < 0x1p-1022) {
    x *= 0x1p54;
    bias -= 54;
  }
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  constexpr uint64_t kExponent = 0x7ff0000000000000ull, kHalf = 0x3fe0000000000000ull;
  return {__builtin_bit_cast(double, (bits & ~kExponent) | kHalf),
          double(int((bits & kExponent) >> 52)) + bias};
}
TK_SPECIAL_INLINE double frexp_mantissa(double x) { return parts_of(x).mantissa; }
TK_SPECIAL_INLINE double frexp_exponent(double x) { return parts_of(x).exponent; }

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_BITS_H_
