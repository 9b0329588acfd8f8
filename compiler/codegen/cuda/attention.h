// SPDX-License-Identifier: Apache-2.0
// Lowers attention to a kernel: the functions of its scores, in kernels/cuda/attention.cuh.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_ATTENTION_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_ATTENTION_H_

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/cuda/attention.h"

namespace tensord::compiler {

// Requires: op.attention.
KernelSource GenerateCudaAttention(const Program& program, const ExternOp& op,
                                   const CudaAttentionPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_ATTENTION_H_
