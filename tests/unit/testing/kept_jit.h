// SPDX-License-Identifier: Apache-2.0
// jit::Jit, which takes what earlier runs of the tests compiled.
#ifndef TENSORD_TESTS_UNIT_TESTING_KEPT_JIT_H_
#define TENSORD_TESTS_UNIT_TESTING_KEPT_JIT_H_

#include "compiler/jit/jit.h"

namespace tensord::testing {

// As jit::Jit; units that were compiled before by the same toolchain for the same target come from
// kept_results.h. Failures are never kept. Errors as those of jit::Jit.
absl::StatusOr<v1::JitResult> KeptJit(const v1::JitJob& job, const jit::JitConfig& config);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_KEPT_JIT_H_
