// SPDX-License-Identifier: Apache-2.0
// Prefixes along a dimension.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kScansRows[] = {
    {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype)"},
    {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype)"},
    {"aten::cummax(Tensor self, int dim)"},
    {"aten::cummin(Tensor self, int dim)"},
    {"aten::logcumsumexp(Tensor self, int dim)"},
};

}  // namespace

OperatorTable ScanTable() { return {OperatorKind::kScan, kScansRows}; }

}  // namespace tensord::compiler
