// SPDX-License-Identifier: Apache-2.0
// Numbers that groups of threads reduce, and what their results are compared by.
#ifndef TENSORD_TESTS_UNIT_KERNELS_CUDA_GROUP_TESTING_H_
#define TENSORD_TESTS_UNIT_KERNELS_CUDA_GROUP_TESTING_H_

#include <cstring>
#include <random>
#include <vector>

namespace tensord::testing {

template <class T>
bool SameBits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

inline std::vector<float> Normal(int n) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal(3, 2);
  std::vector<float> v(n);
  for (float& x : v) x = normal(random);
  return v;
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_CUDA_GROUP_TESTING_H_
