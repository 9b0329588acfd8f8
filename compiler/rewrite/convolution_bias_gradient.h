// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution's bias is a sum of ours, which fuses with what makes and reads the
// gradient that is summed. The library would sum in a kernel of its own; on a CPU in its call for
// the weights, which takes longer for it, and which is made for the bias alone too. Where no other
// gradient is wanted no call remains.
//
//   convolution_backward(g, ..., [image, weight, true])
//     -> convolution_backward(g, ..., [image, weight, false]), g.sum over all but the channels
//
// Complex ones stay as they are. Must follow the passes that make products of the whole call.
#ifndef TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_GRADIENT_H_
#define TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_GRADIENT_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of gradients that are sums now.
int ConvolutionBiasGradient(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_GRADIENT_H_
