// SPDX-License-Identifier: Apache-2.0
// Nests of one launch that differ in their buffers and sizes alone share a function, which finds
// its arguments by the number of the nest: a step of an optimizer over a hundred parameters is one
// body, however many launches it takes.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_SHARED_FUNCTIONS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_SHARED_FUNCTIONS_H_

#include <string>
#include <vector>

#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// What a function for the nest depends on, whatever its buffers and its size: equal for nests that
// are structurally equal and run by the same plan. "" for nests whose functions nobody shares: all
// but elements of one contiguous space, whose indices no symbolic size is in.
std::string FunctionKey(const Program& program, const Nest& nest, const CudaPlan& plan);

// The numbers of equal keys, two or more together, by the first of each; none for "".
std::vector<std::vector<size_t>> FindSharedFunctions(const std::vector<std::string>& keys);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_SHARED_FUNCTIONS_H_
