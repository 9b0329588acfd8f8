// SPDX-License-Identifier: Apache-2.0
// Checks the results of a call by what its lowering gave.
#ifndef TENSORD_COMPILER_DECOMPOSE_VERIFY_RESULTS_H_
#define TENSORD_COMPILER_DECOMPOSE_VERIFY_RESULTS_H_

#include "base/status.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// InvalidArgument: "node 'NAME' (aten::op): result 0 must be float32[4, 8], but is declared as
// ...". Sizes agree when they are equal or, where one is symbolic, equal at the hints.
absl::Status VerifyResults(const Node& node, const std::vector<Tensor>& results);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_VERIFY_RESULTS_H_
