// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kLossesRows[] = {
    {"aten::mse_loss(Tensor self, Tensor target, int reduction)"},
    {"aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction)"},
    {"aten::l1_loss(Tensor self, Tensor target, int reduction)"},
    {"aten::smooth_l1_loss(Tensor self, Tensor target, int reduction, float beta)"},
    {"aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
     "float beta)"},
    {"aten::huber_loss(Tensor self, Tensor target, int reduction, float delta)"},
    {"aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
     "float delta)"},
    {"aten::kl_div(Tensor self, Tensor target, int reduction, *, bool log_target)"},
    {"aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight, int reduction)"},
    {"aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
     "weight, int reduction)"},
    {"aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight, Tensor? "
     "pos_weight, int reduction)"},
    {"aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int "
     "ignore_index)"},
    {"aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
     "reduction, int ignore_index, Tensor total_weight)"},
    {"tensord::cross_entropy_backward(Tensor grad_output, Tensor output, Tensor target, Tensor? "
     "weight, int reduction, int ignore_index, Tensor total_weight, int dim, ScalarType "
     "input_dtype)"},
    {"aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int "
     "ignore_index)"},
    {"aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
     "int reduction, int ignore_index, Tensor total_weight)"},
};

}  // namespace

OperatorTable LossTable() { return {OperatorKind::kLoss, kLossesRows}; }

}  // namespace tensord::compiler
