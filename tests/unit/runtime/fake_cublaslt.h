// SPDX-License-Identifier: Apache-2.0
// cuBLASLt for tests without a GPU: products of bfloat16 matrices in host memory. The test's
// executable exports the symbols (ENABLE_EXPORTS), where the runtime looks them up.
#ifndef TENSORD_TESTS_UNIT_RUNTIME_FAKE_CUBLASLT_H_
#define TENSORD_TESTS_UNIT_RUNTIME_FAKE_CUBLASLT_H_

#include <cstddef>
#include <vector>

namespace tensord::testing {

struct FakeLtAlgorithm {
  size_t workspace_bytes = 0;
  int tile = 0;
  float waves = 4;
  int option = 0;
  int family = 66;
};

struct FakeCublasLt {
  int live = 0;  // descriptors
  int searches = 0, products = 0;
  std::vector<FakeLtAlgorithm> algorithms{{}};  // that it knows, best first
  bool runs = true;                             // false: the library says that it cannot
  // Of the last product.
  FakeLtAlgorithm algorithm;
  void* workspace = nullptr;
  void* stream = nullptr;

  void Reset() { *this = FakeCublasLt{.live = live}; }
};
FakeCublasLt& FakeLt();

float FromBfloat16(const void* value);
void ToBfloat16(float value, void* to);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_RUNTIME_FAKE_CUBLASLT_H_
