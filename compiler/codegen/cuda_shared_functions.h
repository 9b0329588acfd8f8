// The functions that several nests of a launch share (schedule/cuda/shared_functions.h).
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/cuda/plan_kernel.h"

namespace tensord::compiler {

struct SharedFunctions {
  std::string functions;
  // How a launch calls them, and the blocks of all their nests.
  std::vector<std::pair<std::string, Expr>> parts;
  std::vector<bool> done;  // by nest: it needs no function of its own
};

SharedFunctions EmitSharedFunctions(const Program& program, const CudaKernelPlan& plan,
                                    KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_SHARED_FUNCTIONS_H_
