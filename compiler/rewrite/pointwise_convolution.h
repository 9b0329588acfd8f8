// SPDX-License-Identifier: Apache-2.0
// A convolution of single pixels (1x1, stride 1) over channels-last images is a product of matrices
// that lie in memory as they are: pixels times channels. As one it has its result where the memory
// plan wants it, a residual is overwritten by the sum, and a call costs the host a fifth:
//   convolution, with a bias        -> mm, addmm
//   cudnn_convolution_relu          -> _addmm_activation
//   cudnn_convolution_add_relu      -> tensord::residual_product
//   convolution_backward            -> a product for each gradient, and a sum for the bias
// For 16-bit floats: products of float32 follow another setting of torch's than convolutions do.
// Must follow convolution_epilogues, and come before the passes over products and
// convolution_bias.
#ifndef TENSORD_COMPILER_REWRITE_POINTWISE_CONVOLUTION_H_
#define TENSORD_COMPILER_REWRITE_POINTWISE_CONVOLUTION_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of convolutions and gradients that are products now.
int PointwiseConvolution(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_POINTWISE_CONVOLUTION_H_
