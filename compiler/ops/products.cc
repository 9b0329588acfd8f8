// SPDX-License-Identifier: Apache-2.0
// Products of matrices and vectors: calls of a library, with operands of any strides.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kProductsRows[] = {
    {"aten::mm(Tensor self, Tensor mat2)"},
    {"aten::bmm(Tensor self, Tensor mat2)"},
    {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta, Scalar alpha)"},
    {"aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta, Scalar alpha, "
     "bool use_gelu)"},
    {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta, Scalar alpha)"},
    {"tensord::residual_product(Tensor residual, Tensor mat1, Tensor mat2, Tensor bias)"},
    {"aten::dot(Tensor self, Tensor tensor)"},
    {"aten::mv(Tensor self, Tensor vec)"},
    {"aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta, Scalar alpha)"},
};

}  // namespace

OperatorTable ProductTable() { return {OperatorKind::kProduct, kProductsRows}; }

}  // namespace tensord::compiler
