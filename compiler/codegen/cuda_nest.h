// CUDA text of one loop nest.
//
// A nest becomes a device function that one block runs; a launch deals its blocks out to its nests.
// cuda_plan.h says how threads share the work.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_

#include <string>
#include <vector>

#include "compiler/codegen/cuda_accumulators.h"

namespace tensord::compiler {

struct CudaNestText {
  // `static __device__ void NAME(const Args& args, int block, int blocks,
  // tk::GroupMemory& shared)`.
  std::string function;
  std::vector<FinishText> finishes;
  int shared_bytes = 0;  // dynamic shared memory
};

CudaNestText EmitCudaNest(const Program& program, const Nest& nest, const CudaPlan& plan,
                          const std::string& name, KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_NEST_H_
