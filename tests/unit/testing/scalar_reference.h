// SPDX-License-Identifier: Apache-2.0
// What compiler/loop_ir/ops.def says of the scalar operations for tests: which types they take and
// give, the functions of their references beyond <cmath>, domains of random operands and
// tolerances.
#ifndef TENSORD_TESTS_UNIT_TESTING_SCALAR_REFERENCE_H_
#define TENSORD_TESTS_UNIT_TESTING_SCALAR_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "base/philox.h"
#include "tests/unit/testing/special_reference.h"

namespace tensord::testing {

enum class Types { Float, Integer, Number, Bits, Any, Counter };

template <class T>
constexpr bool Takes(Types types) {
  if (types == Types::Any) return true;
  if (types == Types::Counter) return std::is_same_v<T, int64_t>;
  if (std::is_floating_point_v<T>) return types == Types::Float || types == Types::Number;
  if (std::is_same_v<T, bool>) return types == Types::Bits;
  return types != Types::Float;
}

enum class Result { Same, Bool, Second, Float32 };

// The type of the first operand of an operation on T: a choice between the others is by a truth
// value.
template <class T, Result kResult>
using FirstOperand = std::conditional_t<kResult == Result::Second, bool, T>;

// The type of an operation's result on operands of T.
template <class T, Result kResult>
using ResultOf = std::conditional_t<kResult == Result::Bool, bool,
                                    std::conditional_t<kResult == Result::Float32, float, T>>;

// Random operands of both signs; also tried are special values, inside and outside of the domain.
struct Domain {
  double low, high;      // of |x| in float32
  double low64, high64;  // in float64
  bool only_inside = false;
  bool divides = false;  // the second operand of integers is not 0
};
constexpr Domain Between(double low, double high, double low64, double high64) {
  return {low, high, low64, high64};
}
constexpr Domain UpTo(double high, double high64) { return {1e-30, high, 1e-30, high64}; }
constexpr Domain UpTo(double high) { return UpTo(high, high); }
constexpr Domain Within(double high) { return {1e-30, high, 1e-30, high, true}; }
constexpr Domain Wide = {1e-40, 3e38, 1e-310, 1e300};
constexpr Domain Divisors = {1e-40, 3e38, 1e-310, 1e300, false, true};

// Of floats, in units in the last place of the exact result; or, where that is more, absolute.
struct Tolerance {
  double ulps, ulps64;
  double absolute = 0, absolute64 = 0;

  constexpr Tolerance OrWithin(double of_float, double of_double) const {
    return {ulps, ulps64, of_float, of_double};
  }
  constexpr bool IsExact() const { return ulps <= 0.51; }
};
constexpr Tolerance Ulps(double ulps, double ulps64) { return {ulps, ulps64}; }
constexpr Tolerance Ulps(double ulps) { return {ulps, ulps}; }
constexpr Tolerance Exact = Ulps(0);
// The nearest number to the exact result, which the reference has to a few digits more.
constexpr Tolerance Rounded = Ulps(0.501);

namespace ref {

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

// ---- Functions of integers and floats

template <class T>
T floor(T x) {
  if constexpr (kIsFloat<T>) return std::floor(x);
  return x;
}
template <class T>
T ceil(T x) {
  if constexpr (kIsFloat<T>) return std::ceil(x);
  return x;
}
// Ties to even.
template <class T>
T round(T x) {
  if constexpr (kIsFloat<T>) return std::nearbyint(x);
  return x;
}
template <class T>
T trunc(T x) {
  if constexpr (kIsFloat<T>) return std::trunc(x);
  return x;
}
// 0 of NaN, as eager.
template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}
template <class T>
bool isinf(T x) {
  if constexpr (kIsFloat<T>) return std::isinf(x);
  return false;
}
template <class T>
T minimum(T a, T b) {
  return a != a || b != b ? a + b : std::min(a, b);
}
template <class T>
T maximum(T a, T b) {
  return a != a || b != b ? a + b : std::max(a, b);
}
// True division of floats; of integers the quotient without its fraction, the least one over -1
// wraps.
template <class T>
T div(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) return b == -1 ? static_cast<T>(-uint64_t(a)) : a / b;
  return a / b;
}
// a * b + c, floats rounded once.
template <class T>
T fma(T a, T b, T c) {
  if constexpr (kIsFloat<T>) return std::fma(a, b, c);
  return a * b + c;
}
// The remainder with the sign of a.
template <class T>
T fmod(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return std::fmod(a, b);
  } else {
    return a - div(a, b) * b;
  }
}

// ---- Functions of integers

template <class T>
T floor_div(T a, T b) {
  const T q = div(a, b);
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T>
T bitwise_not(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return !x;
  } else {
    return ~x;
  }
}
// A count below 0 or beyond the type's bits shifts everything out.
template <class T>
T shift_left(T a, T count) {
  return count < 0 || count >= 64 ? 0 : static_cast<T>(uint64_t(a) << count);
}
template <class T>
T shift_right(T a, T count) {
  return count < 0 || count >= 64 ? (a < 0 ? static_cast<T>(-1) : 0) : a >> count;
}
// Integers wrap; a negative exponent gives 0, or 1 or -1 where the base is one of them.
template <class T>
T pow(T base, T exponent) {
  if constexpr (kIsFloat<T>) {
    return std::pow(base, exponent);
  } else {
    if (exponent < 0) {
      return base == 1 ? 1 : base == static_cast<T>(-1) ? static_cast<T>(exponent % 2 ? -1 : 1) : 0;
    }
    uint64_t result = 1, square = static_cast<uint64_t>(base);
    for (; exponent > 0; exponent >>= 1, square *= square) {
      if (exponent & 1) result *= square;
    }
    return static_cast<T>(result);
  }
}

// ---- Functions of floats

// log(exp(a) + exp(b)).
template <class T>
T logaddexp(T a, T b) {
  if (a != a || b != b) return a + b;
  const T most = std::max(a, b), least = std::min(a, b);
  return most == least ? most + std::numbers::ln2_v<T> : most + std::log1p(std::exp(least - most));
}
// The logarithmic derivative of gamma: reflection, recurrence up to 25, asymptotic series. Poles
// give NaN, and -infinity at +0, as PyTorch.
template <class T>
T digamma(T x) {
  if (std::isnan(x) || x == -INFINITY) return NAN;
  if (x == 0) return std::copysign(static_cast<T>(INFINITY), -x);
  if (x < 0 && std::trunc(x) == x) return NAN;
  T y = 0;
  if (x < 0) {
    y = -std::numbers::pi_v<T> / std::tan(std::numbers::pi_v<T> * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 25; x += 1) y -= 1 / x;
  const T z = 1 / (x * x);
  return y + std::log(x) - 1 / (2 * x) -
         z * (1 / T(12) - z * (1 / T(120) - z * (1 / T(252) - z / 240)));
}
// Newton's method on erf, started from Winitzki's approximation.
template <class T>
T erfinv(T y) {
  if (!(std::abs(y) < 1)) return y == 1 || y == -1 ? y * static_cast<T>(INFINITY) : NAN;
  const T l = std::log1p(-y * y), t = 2 / (std::numbers::pi_v<T> * T(0.147)) + l / 2;
  T x = std::copysign(std::sqrt(std::sqrt(t * t - l / T(0.147)) - t), y);
  for (int i = 0; i < 5; ++i) {
    x -= (std::erf(x) - y) / (2 * std::numbers::inv_sqrtpi_v<T> * std::exp(-x * x));
  }
  return x;
}
// The standard normal distribution: the probability below x, and its density.
template <class T>
T normal_cdf(T x) {
  return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2;
}
template <class T>
T normal_pdf(T x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
}

// ---- Random numbers

inline float philox_uniform(int64_t seed, int64_t stream, int64_t element) {
  const auto e = static_cast<uint64_t>(element);
  return PhiloxUnit(
      PhiloxBlock(static_cast<uint64_t>(seed), static_cast<uint32_t>(stream), e / 4)[e % 4]);
}
inline double philox_normal(int64_t seed, int64_t stream, int64_t element) {
  const auto e = static_cast<uint64_t>(element);
  const PhiloxWords words =
      PhiloxBlock(static_cast<uint64_t>(seed), static_cast<uint32_t>(stream), e / 2);
  const double u = PhiloxUnit(words[e % 2 * 2]), v = PhiloxUnit(words[e % 2 * 2 + 1]);
  return std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace ref

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_SCALAR_REFERENCE_H_
