// SPDX-License-Identifier: Apache-2.0
// Activations, dropout, and the steps back through them.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kActivationsRows[] = {
    {"aten::gelu(Tensor self, *, str approximate)"},
    {"aten::silu(Tensor self)"},
    {"aten::sigmoid(Tensor self)"},
    {"aten::relu(Tensor self)"},
    {"aten::relu6(Tensor self)"},
    {"aten::leaky_relu(Tensor self, Scalar negative_slope)"},
    {"aten::elu(Tensor self, Scalar alpha, Scalar scale, Scalar input_scale)"},
    {"aten::celu(Tensor self, Scalar alpha)"},
    {"aten::selu(Tensor self)"},
    {"aten::hardtanh(Tensor self, Scalar min_val, Scalar max_val)"},
    {"aten::hardswish(Tensor self)"},
    {"aten::hardsigmoid(Tensor self)"},
    {"aten::softplus(Tensor self, Scalar beta, Scalar threshold)"},
    {"aten::mish(Tensor self)"},
    {"aten::log_sigmoid(Tensor self)"},
    {"aten::log_sigmoid_forward(Tensor self)"},
    {"aten::softshrink(Tensor self, Scalar lambd)"},
    {"aten::hardshrink(Tensor self, Scalar lambd)"},
    {"aten::threshold(Tensor self, Scalar threshold, Scalar value)"},
    {"aten::_prelu_kernel(Tensor self, Tensor weight)"},
    {"aten::logit(Tensor self, float? eps)"},
    {"aten::glu(Tensor self, int dim)"},
    {"aten::native_dropout(Tensor input, float p, bool? train)", kDrawsRandomNumbers},
    {"aten::dropout(Tensor input, float p, bool train)"},
    {"aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold)"},
    {"aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate)"},
    {"aten::silu_backward(Tensor grad_output, Tensor self)"},
    {"aten::tanh_backward(Tensor grad_output, Tensor output)"},
    {"aten::sigmoid_backward(Tensor grad_output, Tensor output)"},
    {"aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
     "self_is_result)"},
    {"aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool "
     "is_result, Tensor self_or_result)"},
    {"aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val)"},
    {"aten::hardswish_backward(Tensor grad_output, Tensor self)"},
    {"aten::hardsigmoid_backward(Tensor grad_output, Tensor self)"},
    {"aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold)"},
    {"aten::mish_backward(Tensor grad_output, Tensor self)"},
    {"aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd)"},
    {"aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd)"},
    {"aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer)"},
    {"aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight)"},
    {"aten::glu_backward(Tensor grad_output, Tensor self, int dim)"},
    {"aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale)"},
};

}  // namespace

OperatorTable ActivationTable() { return {OperatorKind::kPointwise, kActivationsRows}; }

}  // namespace tensord::compiler
