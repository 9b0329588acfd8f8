// What follows a convolution, inside its library call or beside what comes next:
//   relu(convolution)                 -> aten::cudnn_convolution_relu
//   relu(convolution + residual)      -> aten::cudnn_convolution_add_relu
//   convolution with bias, otherwise  -> convolution without, and an addition that fuses with the
//                                        kernel behind it (the library adds it in a kernel alone)
// The fused calls take what cuDNN's engines take everywhere: two dimensions, one group, channels in
// multiples of 16 bytes, channels-last memory. Must follow channels_last.
#ifndef TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_
#define TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of convolutions that took something in.
int FuseConvolutionEpilogues(const v1::Target& target, Graph* graph);

// Gives the number of convolutions whose bias is an operation of its own now.
int SplitConvolutionBias(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CONVOLUTION_EPILOGUES_H_
