// SPDX-License-Identifier: Apache-2.0
// Holds an operation of a prelude against its reference in compiler/loop_ir/ops.def: over the
// operands of its domain and special values, in every type that it takes.
#ifndef TENSORD_TESTS_UNIT_KERNELS_OPERATION_CHECK_H_
#define TENSORD_TESTS_UNIT_KERNELS_OPERATION_CHECK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
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
    return {T(0),
            T(1),
            T(2),
            T(3),
            T(7),
            T(-1),
            T(-2),
            T(-7),
            Limits::min(),
            T(31),
            T(100),
            T(32),
            T(63),
            T(64),
            T(8),
            Limits::max(),
            T(Limits::min() + 1)};
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

// Operands one by one, or each with each of the special ones: first[i] and second[i]. A multiple of
// 16 of them.
template <class T>
struct Operands {
  std::vector<T> first, second;
};
template <class T>
Operands<T> OperandsOf(int arity, const Domain& domain, int count) {
  std::mt19937_64 random(7);
  std::vector<T> special = SpecialOperands<T>();
  if (domain.only_inside) {
    std::erase_if(special, [&](T x) { return x != 0 && !(std::abs(double(x)) <= domain.high); });
  }
  Operands<T> operands;
  const auto add = [&](T a, T b) {
    if (domain.divides && !std::is_floating_point_v<T> && b == T(0)) return;
    operands.first.push_back(a);
    operands.second.push_back(b);
  };
  for (T a : special) {
    if (arity == 1) {
      add(a, a);
    } else {
      for (T b : special) add(a, b);
    }
  }
  if (!std::is_same_v<T, bool>) {
    for (int i = 0; i < count; ++i) {
      const T a = RandomOperand<T>(domain, random);
      add(a, arity == 1 ? a : RandomOperand<T>(domain, random));
    }
  }
  while (operands.first.size() % 16 != 0) add(T(1), T(1));
  return operands;
}

// What the reference is computed in: integers that wrap as the type does, floats with more digits.
template <class T>
using WideOf = std::conditional_t<
    std::is_floating_point_v<T>, long double,
    std::conditional_t<sizeof(T) == 8 && !std::is_signed_v<T>, uint64_t,
                       std::conditional_t<std::is_same_v<T, bool>, bool, int64_t>>>;

// One type. Prelude: `kLanes`, `Load(const T*)` and `Get(vector, lane)`; f: the operation on its
// vectors; reference: of wide numbers.
template <class Prelude, class T, int kArity, class F, class R>
void CheckType(const char* name, F f, R reference, const Domain& domain,
               const Tolerance& tolerance) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  const double ulps = sizeof(T) == 4 ? tolerance.ulps : tolerance.ulps64;
  const double absolute = sizeof(T) == 4 ? tolerance.absolute : tolerance.absolute64;
  const Operands<T> operands = OperandsOf<T>(kArity, domain, kFloat ? 200000 : 2000);
  double worst = 0;
  std::string at;
  for (size_t i = 0; i < operands.first.size(); i += Prelude::kLanes) {
    T first[16], second[16];
    std::copy_n(operands.first.begin() + i, Prelude::kLanes, first);
    std::copy_n(operands.second.begin() + i, Prelude::kLanes, second);
    const auto a = Prelude::Load(first), b = Prelude::Load(second);
    const auto results = [&] {
      if constexpr (kArity == 1) {
        return f(a);
      } else {
        return f(a, b);
      }
    }();
    for (int k = 0; k < Prelude::kLanes; ++k) {
      const auto got = Prelude::Get(results, k);
      using Got = std::remove_const_t<decltype(got)>;
      const T x = Prelude::Get(a, k), y = Prelude::Get(b, k);
      const auto want = reference(WideOf<T>(x), WideOf<T>(y), WideOf<T>());
      double error;
      if constexpr (std::is_floating_point_v<Got>) {
        error = UlpError(got, want);
        if (std::fabs(got - want) <= absolute * std::max(1.0L, std::fabs((long double)want))) {
          error = 0;
        }
      } else {
        error = got == static_cast<Got>(want) ? 0 : 1e30;
      }
      if (error <= worst) continue;
      worst = error;
      at = std::to_string(x) + (kArity == 1 ? "" : ", " + std::to_string(y)) + ") is " +
           std::to_string(got) + ", not " + std::to_string(want);
    }
  }
  EXPECT_LE(worst, ulps) << name << "(" << at << " in " << sizeof(T) << " bytes, "
                         << Prelude::kLanes << " lanes";
  if (std::getenv("TENSORD_SHOW_ULPS") != nullptr && kFloat) {
    std::printf("%-12s %zu bytes, %2d lanes: %.3f ulp (%s\n", name, sizeof(T), Prelude::kLanes,
                worst, at.c_str());
  }
}

template <class Prelude, Types kTypes, int kArity, class F, class R>
void CheckOperation(const char* name, F f, R reference, const Domain& domain,
                    const Tolerance& tolerance) {
  const auto check = [&]<class... T>() {
    const auto one = [&]<class U>() {
      if constexpr (Takes<U>(kTypes)) {
        CheckType<Prelude, U, kArity>(name, f, reference, domain, tolerance);
      }
    };
    (one.template operator()<T>(), ...);
  };
  check.template operator()<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
                            int64_t, uint64_t, bool>();
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_OPERATION_CHECK_H_
