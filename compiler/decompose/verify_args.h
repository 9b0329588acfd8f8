// Checks a call against its operator: its arguments by the signature (lowering.h explains
// signatures), so that the accessors of Call may be used as the signature says; its results by what
// the lowering gave.
#ifndef TENSORD_COMPILER_DECOMPOSE_VERIFY_ARGS_H_
#define TENSORD_COMPILER_DECOMPOSE_VERIFY_ARGS_H_

#include "base/status.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// InvalidArgument: "node 'NAME' (aten::op): argument 2 must be ..., but is ...".
absl::Status VerifyArguments(const Node& node, const Operator& op);

// InvalidArgument: "node 'NAME' (aten::op): result 0 must be float32[4, 8], but is declared as
// ...". Sizes agree when they are equal or, where one is symbolic, equal at the hints.
absl::Status VerifyResults(const Node& node, const std::vector<Tensor>& results);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_VERIFY_ARGS_H_
