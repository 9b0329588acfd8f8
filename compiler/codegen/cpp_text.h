// SPDX-License-Identifier: Apache-2.0
// C++ spellings of types and numbers in generated kernels.
#ifndef TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_
#define TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_

#include <string>

#include "compiler/graph/dtype.h"

namespace tensord::compiler {

// The element type in memory: "float", "tk::bfloat16", "bool".
std::string StorageType(DType dtype);
// A number of the compute type: "float(0.5)", "int64_t(3)", "true".
std::string LiteralText(DType dtype, double number, int64_t integer);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_
