// SPDX-License-Identifier: Apache-2.0
// The functions that several nests of a launch share (schedule/cuda/shared_functions.h).
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_

#include <vector>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/cuda/plan_kernel.h"

namespace tensord::compiler {

// A part of a launch: how it is called, and its blocks.
struct CudaPart {
  ir::Value call;
  Expr blocks;
};

struct SharedFunctions {
  std::vector<ir::Function> functions;
  std::vector<CudaPart> parts;  // each of all nests that share a function
  std::vector<bool> done;       // by nest: it needs no function of its own
};

SharedFunctions LowerSharedFunctions(const Program& program, const CudaKernelPlan& plan,
                                     KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_
