// SPDX-License-Identifier: Apache-2.0
// Orthogonal polynomials of a degree that is a number like x: its fraction is dropped, and 0 is the
// result where it is negative, or is no degree at all. In the operands' type, and by the
// recurrences and trigonometric forms of PyTorch, so that what overflows is what overflows there.
#ifndef TENSORD_SPECIAL_POLYNOMIALS_H_
#define TENSORD_SPECIAL_POLYNOMIALS_H_

#include "tensord/special/series.h"

namespace tk_special {

// -1 for what is no degree.
template <class T>
TK_SPECIAL_INLINE int64_t degree_of(T n) {
  return n > T(-1) && n < T(0x1p62) ? int64_t(n) : -1;
}

// P(n) of P(0) = 1, P(1) = first and P(k+1) = step(k, P(k), P(k-1)); n >= 0.
template <class T, class Step>
TK_SPECIAL_INLINE T by_recurrence(int64_t n, T first, Step step) {
  if (n == 0) return T(1);
  T last = first, before = T(1);
  for (int64_t k = 1; k < n && last == last; ++k) {
    const T next = step(T(k), last, before);
    before = last;
    last = next;
  }
  return last;
}

// The recurrence of the four kinds of Chebyshev's polynomials, which differ in P(1).
template <class T>
TK_SPECIAL T chebyshev_by_recurrence(T x, int64_t n, T first) {
  return by_recurrence(n, first, [x](T, T last, T before) { return (x + x) * last - before; });
}

// x with the sign of (-1)^n.
template <class T>
TK_SPECIAL_INLINE T alternating(int64_t n, T x) {
  return n % 2 == 0 ? x : -x;
}

// Inside of (-1, 1) high degrees are trigonometric: T(n) of cos(a) is cos(n a), U(n) is
// sin((n + 1) a) / sin(a), V(n) is cos((n + 1/2) a) / cos(a / 2), W(n) is sin((n + 1/2) a) /
// sin(a / 2). Source: NIST Digital Library of Mathematical Functions, 18.5.
template <class T>
TK_SPECIAL T chebyshev_t(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (fabs(x) == T(1)) return x > T(0) ? T(1) : alternating(n, T(1));
  if (n > 6 && fabs(x) < T(1)) return cos(T(n) * acos(x));
  return chebyshev_by_recurrence(x, n, x);
}

template <class T>
TK_SPECIAL T chebyshev_u(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (fabs(x) == T(1)) return x > T(0) ? T(n + 1) : alternating(n, T(n + 1));
  if (n > 8 && fabs(x) < T(1)) {
    const T angle = acos(x);
    return sin(T(n + 1) * angle) / sin(angle);
  }
  return chebyshev_by_recurrence(x, n, x + x);
}

template <class T>
TK_SPECIAL T chebyshev_v(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (fabs(x) == T(1)) return x > T(0) ? T(1) : alternating(n, T(n + n + 1));
  if (n > 8 && fabs(x) < T(1)) {
    const T angle = acos(x);
    // So near to -1 the quotient has no digits.
    if (sin(angle / T(2)) == T(1)) return alternating(n, T(n + n + 1));
    return cos((T(n) + T(0.5)) * angle) / cos(angle / T(2));
  }
  return chebyshev_by_recurrence(x, n, x + x - T(1));
}

template <class T>
TK_SPECIAL T chebyshev_w(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (fabs(x) == T(1)) return x > T(0) ? T(n + n + 1) : alternating(n, T(1));
  if (n > 8 && fabs(x) < T(1)) {
    const T angle = acos(x);
    if (cos(angle / T(2)) == T(1)) return T(n + n + 1);
    return sin((T(n) + T(0.5)) * angle) / sin(angle / T(2));
  }
  return chebyshev_by_recurrence(x, n, x + x + T(1));
}

// Hermite's polynomials end at the degree where PyTorch gives NaN.
template <class T>
TK_SPECIAL_INLINE bool is_hermite_degree(int64_t n) {
  return n <= (sizeof(T) == 4 ? 128 : 512);
}

// Those of physics, orthogonal with the weight exp(-x^2).
template <class T>
TK_SPECIAL T hermite_h(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (!is_hermite_degree<T>(n)) return T(quiet_nan());
  return by_recurrence(n, x + x,
                       [x](T k, T last, T before) { return (x + x) * last - (k + k) * before; });
}

// Those of probability, orthogonal with the weight exp(-x^2 / 2).
template <class T>
TK_SPECIAL T hermite_he(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (!is_hermite_degree<T>(n)) return T(quiet_nan());
  return by_recurrence(n, x, [x](T k, T last, T before) { return x * last - k * before; });
}

template <class T>
TK_SPECIAL T laguerre(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (x == T(0)) return T(1);
  return by_recurrence(n, T(1) - x, [x](T k, T last, T before) {
    return ((k + k + (T(1) - x)) * last - k * before) / (k + T(1));
  });
}

template <class T>
TK_SPECIAL T legendre(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (fabs(x) == T(1)) return x > T(0) ? T(1) : alternating(n, T(1));
  return by_recurrence(n, x, [x](T k, T last, T before) {
    return ((k + k + T(1)) * x * last - k * before) / (k + T(1));
  });
}

}  // namespace tk_special

#endif  // TENSORD_SPECIAL_POLYNOMIALS_H_
