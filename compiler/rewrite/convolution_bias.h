// SPDX-License-Identifier: Apache-2.0
// The bias of a convolution becomes an addition, which fuses with the kernel behind it; the library
// would add it in a kernel of its own.
//
// Requires: a graph for CUDA. Must follow convolution_epilogues and product_epilogues, which take
// biases into library calls.
#ifndef TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_H_
#define TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of convolutions whose bias is an operation of its own now.
int ConvolutionBias(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CONVOLUTION_BIAS_H_
