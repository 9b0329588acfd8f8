// SPDX-License-Identifier: Apache-2.0
// The prelude's tests are built once per instruction set; a machine without it skips them. This
// file is compiled for any machine and runs before what the others initialise, which may not be.
#include <unistd.h>

#include <cstring>

namespace {

// What CTest takes for skipped (SKIP_RETURN_CODE).
constexpr int kSkipped = 77;

bool MachineHasIsa() {
  __builtin_cpu_init();
  if (std::strcmp(TENSORD_TEST_ISA, "avx512") == 0) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  if (std::strcmp(TENSORD_TEST_ISA, "avx2") == 0) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
  return true;
}

__attribute__((constructor(101))) void SkipWithoutIsa() {
  if (MachineHasIsa()) return;
  constexpr char kText[] = "skipped: this machine has no " TENSORD_TEST_ISA "\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, kText, sizeof kText - 1);
  _exit(kSkipped);
}

}  // namespace
