// SPDX-License-Identifier: Apache-2.0
// Products that are several calls of a library, on parts of their operands.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kProductByRowsRows[] = {
    {"tensord::product_by_rows(Tensor a, Tensor weight, Tensor? bias, int aligned, int parts)"},
};

}  // namespace

OperatorTable ProductByRowsTable() { return {OperatorKind::kProductByRows, kProductByRowsRows}; }

}  // namespace tensord::compiler
