// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling of images.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kPoolingRows[] = {
    {"aten::max_pool2d_with_indices(Tensor self, int[] kernel_size, int[] stride, int[] padding, "
     "int[] dilation, bool ceil_mode)",
     kAnyResultLayout},
    {"aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[] kernel_size, "
     "int[] stride, int[] padding, int[] dilation, bool ceil_mode, Tensor indices)"},
    {"tensord::max_pool2d_with_offsets(Tensor self, int[] kernel_size, int[] stride, int[] "
     "padding, int[] dilation, bool ceil_mode)"},
    {"tensord::max_pool2d_offsets_backward(Tensor grad_output, Tensor offsets, int[] sizes, int[] "
     "kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, bool "
     "channels_last)"},
    {"aten::max_pool3d_with_indices(Tensor self, int[] kernel_size, int[] stride, int[] padding, "
     "int[] dilation, bool ceil_mode)",
     kAnyResultLayout},
    {"aten::adaptive_max_pool2d(Tensor self, int[] output_size)", kAnyResultLayout},
    {"aten::adaptive_max_pool3d(Tensor self, int[] output_size)", kAnyResultLayout},
    {"aten::avg_pool2d(Tensor self, int[] kernel_size, int[] stride, int[] padding, bool "
     "ceil_mode, bool count_include_pad, int? divisor_override)",
     kAnyResultLayout},
    {"aten::avg_pool3d(Tensor self, int[] kernel_size, int[] stride, int[] padding, bool "
     "ceil_mode, bool count_include_pad, int? divisor_override)",
     kAnyResultLayout},
    {"aten::_adaptive_avg_pool2d(Tensor self, int[] output_size)", kAnyResultLayout},
    {"aten::_adaptive_avg_pool3d(Tensor self, int[] output_size)", kAnyResultLayout},
    {"aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
     "bool align_corners)"},
    {"aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
     "bool align_corners)"},
    {"aten::upsample_bilinear2d(Tensor self, int[] output_size, bool align_corners, float? "
     "scales_h, float? scales_w)",
     kByLibrary | kFollowsLayout},
    {"aten::upsample_nearest2d(Tensor self, int[] output_size, float? scales_h, float? scales_w)",
     kByLibrary | kFollowsLayout},
};

}  // namespace

OperatorTable PoolingTable() { return {OperatorKind::kPooling, kPoolingRows}; }

}  // namespace tensord::compiler
