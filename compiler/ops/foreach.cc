// SPDX-License-Identifier: Apache-2.0
// Pointwise operators over lists of tensors.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kForeachRows[] = {
    {"aten::_foreach_sqrt(Tensor[] self)"},
    {"aten::_foreach_rsqrt(Tensor[] self)"},
    {"aten::_foreach_exp(Tensor[] self)"},
    {"aten::_foreach_reciprocal(Tensor[] self)"},
    {"aten::_foreach_neg(Tensor[] self)"},
    {"aten::_foreach_abs(Tensor[] self)"},
    {"aten::_foreach_sign(Tensor[] self)"},
    {"aten::_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha)"},
    {"aten::_foreach_add.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha)"},
    {"aten::_foreach_sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha)"},
    {"aten::_foreach_sub.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_sub.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_mul.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_mul.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_mul.Tensor(Tensor[] self, Tensor other)"},
    {"aten::_foreach_div.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_div.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_div.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_div.Tensor(Tensor[] self, Tensor other)"},
    {"aten::_foreach_maximum.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_maximum.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_minimum.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_minimum.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_clamp_min.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_clamp_min.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_clamp_min.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_clamp_max.List(Tensor[] self, Tensor[] other)"},
    {"aten::_foreach_clamp_max.Scalar(Tensor[] self, Scalar scalar)"},
    {"aten::_foreach_clamp_max.ScalarList(Tensor[] self, Scalar[] scalars)"},
    {"aten::_foreach_pow.List(Tensor[] self, Tensor[] exponent)"},
    {"aten::_foreach_pow.Scalar(Tensor[] self, Scalar exponent)"},
    {"aten::_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent)"},
    {"aten::_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent)"},
    {"aten::_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights)"},
    {"aten::_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight)"},
    {"aten::_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight)"},
    {"aten::_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar "
     "value)"},
    {"aten::_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
     "Scalar[] scalars)"},
    {"aten::_foreach_addcdiv.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar "
     "value)"},
    {"aten::_foreach_addcdiv.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
     "Scalar[] scalars)"},
    {"aten::_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking)"},
};

}  // namespace

OperatorTable ForeachTable() { return {OperatorKind::kPointwise, kForeachRows}; }

}  // namespace tensord::compiler
