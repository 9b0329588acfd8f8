// SPDX-License-Identifier: Apache-2.0
// Numbers of each type that the CUDA prelude is tried with on the host, and what the results of the
// two preludes are compared by.
#ifndef TENSORD_TESTS_UNIT_KERNELS_SAMPLES_H_
#define TENSORD_TESTS_UNIT_KERNELS_SAMPLES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/unit/kernels/operands.h"

namespace tensord::testing {

// Equal bits, or both NaN.
template <class T>
bool Same(T a, T b) {
  if (a != a && b != b) return true;
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T>
std::string Text(T x) {
  return std::to_string(x);
}

template <class T>
std::vector<T> Samples() {
  std::mt19937_64 random(11);
  std::vector<T> v = SpecialOperands<T>();
  if constexpr (std::is_floating_point_v<T>) {
    for (int i = 0; i < 30; ++i) {
      v.push_back(T(std::ldexp(double(int64_t(random())), -60)));
      v.push_back(T(std::ldexp(double(int64_t(random())), int(random() % 40) - 80)));
    }
  } else if constexpr (!std::is_same_v<T, bool>) {
    for (int i = 0; i < 40; ++i) v.push_back(T(random() >> random() % 64));
  }
  return v;
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_SAMPLES_H_
