// SPDX-License-Identifier: Apache-2.0
// ReLU and a residual go into the call of the convolution before them:
//   relu(convolution)                 -> aten::cudnn_convolution_relu
//   relu(convolution + residual)      -> aten::cudnn_convolution_add_relu
// The fused calls take what cuDNN's engines take everywhere: two dimensions, one group, channels in
// multiples of 16 bytes, channels-last memory. Must follow channels_last.
#ifndef TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_
#define TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of convolutions that took something in.
int ConvolutionEpilogues(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_
