// SPDX-License-Identifier: Apache-2.0
// What scalar operations are tried with: special values, and random operands of a domain, in every
// type that operations compute in.
#ifndef TENSORD_TESTS_UNIT_KERNELS_OPERANDS_H_
#define TENSORD_TESTS_UNIT_KERNELS_OPERANDS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/unit/testing/scalar_reference.h"

namespace tensord::testing {

// In units in the last place of the result; 0 for equal numbers and for two NaNs.
template <class T>
double UlpError(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  const T rounded = T(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // The largest finite number and infinity are neighbours.
    const T top = std::numeric_limits<T>::max();
    return std::fabs(got) >= top * T(0.9999999) && std::fabs(rounded) >= top * T(0.9999999) ? 1
                                                                                            : 1e30;
  }
  int exponent;
  std::frexp(std::fabs(want), &exponent);
  const int least = std::numeric_limits<T>::min_exponent;
  exponent = std::max(exponent, least);
  return double(std::fabs(got - want) /
                std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

// The ends of an integer type, small numbers of both signs, and counts around a type's bits.
template <class T>
std::vector<T> IntegerLimits() {
  using Limits = std::numeric_limits<T>;
  return {T(0),         T(1),  T(2),  T(3),  T(7),  T(8),   T(-1),         T(-2),
          T(-7),        T(31), T(32), T(63), T(64), T(100), Limits::min(), T(Limits::min() + 1),
          Limits::max()};
}

// Limits and what functions treat apart: where they overflow, change the method, have a pole.
template <class T>
std::vector<T> SpecialOperands() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> v = {
        T(0),          T(-0.0),          Limits::infinity(),   -Limits::infinity(), Limits::min(),
        Limits::max(), Limits::lowest(), Limits::denorm_min(), Limits::quiet_NaN()};
    for (T x :
         {T(1), T(0.5), T(2), T(0.625), T(0.921875), T(0.75), T(1.5), T(4), T(7), T(87), T(88.72),
          T(103.9), T(128), T(149), T(3.14159265), T(1.57079633), T(1e-30), T(1e-5), T(48000)}) {
      for (T y : {x, -x, std::nextafter(x, T(1e30)), std::nextafter(x, T(-1e30))}) v.push_back(y);
    }
    return v;
  } else {
    return IntegerLimits<T>();
  }
}

// Uniform and log-uniform over the domain, and near 1.
template <class T>
T RandomOperand(const Domain& domain, std::mt19937_64& random) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr bool f = sizeof(T) == 4;
    const double low = f ? domain.low : domain.low64, high = f ? domain.high : domain.high64;
    const double unit = double(random() >> 11) * 0x1p-53, sign = random() & 1 ? -1 : 1;
    switch (random() % 5) {
      case 0:
        return T(sign * std::min(high, std::max(low, 2 * unit)));
      case 1:
      case 2:
        return T(sign * high * unit);
      default:
        return T(sign * std::exp(std::log(low) + unit * (std::log(high) - std::log(low))));
    }
  } else {
    return T(random() >> random() % 64);
  }
}

// Operands one by one, or each with each of the special ones: first[i], second[i] and third[i]. A
// multiple of 16 of them.
template <class T>
struct Operands {
  std::vector<T> first, second, third;
};
template <class T>
Operands<T> OperandsOf(int arity, const Domain& domain, int count) {
  std::mt19937_64 random(7);
  std::vector<T> special = SpecialOperands<T>();
  if (domain.only_inside) {
    std::erase_if(special, [&](T x) { return x != 0 && !(std::abs(double(x)) <= domain.high); });
  }
  Operands<T> operands;
  const auto add = [&](T a, T b, T c) {
    if (domain.divides && !std::is_floating_point_v<T> && b == T(0)) return;
    operands.first.push_back(a);
    operands.second.push_back(b);
    operands.third.push_back(c);
  };
  // An operand that the operation does not have takes one value.
  const std::vector<T> none = {T(1)};
  for (T a : special) {
    for (T b : arity > 1 ? special : none) {
      for (T c : arity > 2 ? special : none) add(a, b, c);
    }
  }
  if (!std::is_same_v<T, bool>) {
    const auto draw = [&] { return RandomOperand<T>(domain, random); };
    for (int i = 0; i < count; ++i) {
      const T a = draw(), b = arity > 1 ? draw() : T(1), c = arity > 2 ? draw() : T(1);
      add(a, b, c);
    }
  }
  while (operands.first.size() % 16 != 0) add(T(1), T(1), T(1));
  return operands;
}

// f of the first kArity of three vectors or numbers.
template <int kArity, class F, class A, class B, class C>
auto ApplyFirst(F f, A a, B b, C c) {
  if constexpr (kArity == 1) {
    return f(a);
  } else if constexpr (kArity == 2) {
    return f(a, b);
  } else {
    return f(a, b, c);
  }
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_OPERANDS_H_
