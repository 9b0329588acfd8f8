// Nests of one launch that differ in their buffers and sizes alone share a function, which finds
// its arguments by the number of the nest: a step of an optimizer over a hundred parameters is one
// body, however many launches it takes.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_ALIKE_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_ALIKE_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda_plan.h"
#include "compiler/codegen/interface.h"

namespace tensord::compiler {

struct PlannedNest {
  Nest nest;
  CudaPlan plan;
};

struct AlikeNests {
  std::string functions;
  // How a launch calls them, and the blocks of all their nests.
  std::vector<std::pair<std::string, Expr>> parts;
  std::vector<bool> done;  // by nest: it needs no function of its own
};

AlikeNests ShareFunctions(const Program& program, const std::vector<PlannedNest>& nests,
                          bool wide_index, KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_ALIKE_H_
