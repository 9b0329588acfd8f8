// SPDX-License-Identifier: Apache-2.0
// The kernel IR's own text: stable, for tests, dumps and comparisons. It names types where C++
// would infer them, and shows in parentheses what binds how.
#ifndef TENSORD_COMPILER_KERNEL_IR_TEXT_H_
#define TENSORD_COMPILER_KERNEL_IR_TEXT_H_

#include <string>

#include "compiler/kernel_ir/kernel_ir.h"

namespace tensord::compiler::ir {

std::string ToString(const Type& type);
std::string ToString(const Value& value);
// Two spaces a level.
std::string ToString(const Block& block, int depth = 0);
std::string ToString(const Function& function);
std::string ToString(const Kernel& kernel);

// Lanes of a vector as they are written in every text: W where they are the nest's (kWidth).
std::string LanesText(int lanes);
// The operator as it is written in every text.
const char* Spelling(BinaryOp op);
const char* Spelling(Unary::Op op);

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_TEXT_H_
