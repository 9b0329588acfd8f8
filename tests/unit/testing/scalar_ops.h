// SPDX-License-Identifier: Apache-2.0
// One scalar operation of the loop IR on plain numbers (for interpreter.cc).
#ifndef TENSORD_TESTS_UNIT_TESTING_SCALAR_OPS_H_
#define TENSORD_TESTS_UNIT_TESTING_SCALAR_OPS_H_

#include <vector>

#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {

// `dtype` is the type of the operands (of the second one for `where`).
Cell EvaluateOp(compiler::Op op, DType dtype, const std::vector<Cell>& args);
Cell CastCell(Cell value, DType from, DType to);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_SCALAR_OPS_H_
