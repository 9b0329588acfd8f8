// SPDX-License-Identifier: Apache-2.0
// Facts that tracing checks and a compiled program need not.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kAssertionsRows[] = {
    {"aten::_assert_scalar(Scalar self, str assert_msg)", kByLibrary | kNoEffect},
    {"aten::_assert_tensor_metadata(Tensor a, int[]? size, int[]? stride, ScalarType? dtype, *, "
     "Device? device, Layout? layout)",
     kByLibrary | kNoEffect},
    {"aten::sym_constrain_range(Scalar size, *, int? min, int? max)", kByLibrary | kNoEffect},
    {"aten::sym_constrain_range_for_size(Scalar size, *, int? min, int? max)",
     kByLibrary | kNoEffect},
    {"aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token)",
     kByLibrary | kNoEffect},
    {"aten::_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token)",
     kByLibrary | kNoEffect},
};

}  // namespace

OperatorTable AssertionTable() { return {OperatorKind::kAssertion, kAssertionsRows}; }

}  // namespace tensord::compiler
