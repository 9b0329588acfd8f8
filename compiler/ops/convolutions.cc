// SPDX-License-Identifier: Apache-2.0
// Convolutions, which libraries compute.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kConvolutionsRows[] = {
    {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
     "int[] dilation, bool transposed, int[] output_padding, int groups)",
     kByLibrary | kFollowsLayout},
    {"aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? "
     "bias_sizes, int[] stride, int[] padding, int[] dilation, bool transposed, int[] "
     "output_padding, int groups, bool[] output_mask)",
     kByLibrary},
    {"aten::cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, int[] stride, int[] "
     "padding, int[] dilation, int groups)",
     kByLibrary},
    {"aten::cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, "
     "Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups)",
     kByLibrary},
};

}  // namespace

OperatorTable ConvolutionTable() { return {OperatorKind::kConvolution, kConvolutionsRows}; }

}  // namespace tensord::compiler
