// SPDX-License-Identifier: Apache-2.0
// Whether tests that need NVRTC run.
#ifndef TENSORD_TESTS_UNIT_TESTING_CUDA_TESTS_H_
#define TENSORD_TESTS_UNIT_TESTING_CUDA_TESTS_H_

#include <cstdlib>
#include <string_view>

namespace tensord::testing {

// TENSORD_NO_CUDA_TESTS=1, for machines without NVRTC.
inline bool CudaTestsAreOff() {
  const char* const off = std::getenv("TENSORD_NO_CUDA_TESTS");
  return off != nullptr && std::string_view(off) == "1";
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_CUDA_TESTS_H_
