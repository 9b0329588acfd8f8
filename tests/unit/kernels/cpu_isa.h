// SPDX-License-Identifier: Apache-2.0
// The prelude's tests are built once per instruction set; a machine without it skips them.
#ifndef TENSORD_TESTS_UNIT_KERNELS_CPU_ISA_H_
#define TENSORD_TESTS_UNIT_KERNELS_CPU_ISA_H_

#include <gtest/gtest.h>

#include "kernels/cpu/types.h"

namespace kernels_cpu {

inline bool MachineHasIsa() {
  __builtin_cpu_init();
#if TK_AVX512
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif TK_AVX2
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

class IsaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!MachineHasIsa())
      GTEST_SKIP() << "this machine lacks the instruction set with " << tk::kNativeBytes
                   << "-byte registers";
  }
};

}  // namespace kernels_cpu

#endif  // TENSORD_TESTS_UNIT_KERNELS_CPU_ISA_H_
