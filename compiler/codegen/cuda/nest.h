// SPDX-License-Identifier: Apache-2.0
// Lowers one loop nest for CUDA targets to the kernel IR.
//
// A nest becomes a device function that one block runs; a launch deals its blocks out to its nests.
// schedule/cuda/plan.h says how threads share the work.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_

#include <string>
#include <vector>

#include "compiler/codegen/cuda/accumulators.h"

namespace tensord::compiler {

struct CudaNestFunctions {
  // The last is NAME(args, block, blocks, shared); others are those that it calls.
  std::vector<ir::Function> functions;
  // What runs in launches before it, one after the other, in as many blocks: likewise.
  std::vector<ir::Function> totals;
  std::vector<CudaFinish> finishes;
  int shared_bytes = 0;  // dynamic shared memory
};

CudaNestFunctions LowerCudaNest(const Program& program, const Nest& nest, const CudaPlan& plan,
                                const std::string& name, KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_
