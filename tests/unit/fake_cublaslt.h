// cuBLASLt for tests without a GPU: products of bfloat16 matrices in host memory. The test's
// executable exports the symbols (ENABLE_EXPORTS), where the runtime looks them up.
#ifndef TENSORD_TESTS_UNIT_FAKE_CUBLASLT_H_
#define TENSORD_TESTS_UNIT_FAKE_CUBLASLT_H_

#include <cstddef>

namespace tensord::testing {

struct FakeCublasLt {
  int live = 0;  // descriptors
  int searches = 0, products = 0;
  size_t workspace_bytes = 0;      // what the algorithms found take
  bool finds = true, runs = true;  // false: the library says that it cannot
  void* workspace = nullptr;       // of the last product
  void* stream = nullptr;

  void Reset() { *this = FakeCublasLt{.live = live}; }
};
FakeCublasLt& FakeLt();

float FromBfloat16(const void* value);
void ToBfloat16(float value, void* to);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_FAKE_CUBLASLT_H_
