// SPDX-License-Identifier: Apache-2.0
// Softmax and norms, and the steps back through them.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kNormalizationsRows[] = {
    {"aten::_softmax(Tensor self, int dim, bool half_to_float)"},
    {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype)"},
    {"aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype)"},
    {"aten::_log_softmax(Tensor self, int dim, bool half_to_float)"},
    {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype)"},
    {"tensord::softmax_statistics(Tensor self, int dim)"},
    {"aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
     "input_dtype)"},
    {"aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
     "input_dtype)"},
    {"aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
     "float eps)"},
    {"aten::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float "
     "eps, bool cudnn_enable)"},
    {"aten::native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, "
     "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[] output_mask)"},
    {"aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)"},
    {"aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)"},
    {"aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor "
     "rstd, Tensor? weight, bool[] output_mask)"},
    {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, "
     "int group, float eps)",
     kAnyResultLayout},
    {"aten::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, bool "
     "cudnn_enabled)"},
    {"aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
     "Tensor? weight, int N, int C, int HxW, int group, bool[] output_mask)"},
    {"aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor "
     "running_mean, Tensor running_var, bool training, float momentum, float eps)",
     kAnyResultLayout},
    {"aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool "
     "training, float momentum, float eps)"},
    {"aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
     "running_mean, Tensor running_var, bool training, float momentum, float eps)",
     kAnyResultLayout},
    {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
     "Tensor running_mean, Tensor running_var, float momentum, float eps)",
     kAnyResultLayout},
    {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
     "Tensor? running_var, bool training, float momentum, float eps)",
     kAnyResultLayout},
    {"aten::_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
     "running_mean, Tensor running_var, float momentum, float eps)"},
    {"aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
     "running_mean, Tensor? running_var, float momentum, float eps)"},
    {"aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
     "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float "
     "eps, bool[] output_mask)"},
    {"aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? "
     "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float "
     "eps, bool[] output_mask, Tensor reserve)"},
    {"aten::cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, "
     "Tensor? running_var, bool training, float exponential_average_factor, float epsilon)",
     kByLibrary},
};

}  // namespace

OperatorTable NormalizationTable() { return {OperatorKind::kNormalization, kNormalizationsRows}; }

}  // namespace tensord::compiler
