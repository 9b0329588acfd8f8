// SPDX-License-Identifier: Apache-2.0
// The plan of one CUDA launch: that of each nest, and what they have together.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_KERNEL_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_KERNEL_H_

#include <string>
#include <vector>

#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

struct PlannedCudaNest {
  Nest nest;  // in the form that PrepareCudaNest gives it
  CudaPlan plan;
};

struct CudaKernelPlan {
  std::vector<PlannedCudaNest> nests;  // as in the kernel
  // Nests of one function, two or more together; the others have one of their own.
  std::vector<std::vector<size_t>> shared_functions;
  int threads = 0;          // of a block
  int finish_threads = 0;   // of a block of the second launch; 0: there is none
  int resident = 1;         // blocks that a multiprocessor has room for
  bool wide_index = false;  // 32 bits do not reach every element
  // Whether the launch lets the next one begin and waits itself for those before it
  // (tk::wait_for_launches); and the second launch, of a kernel that has one.
  bool waits = false, finish_waits = false;
};

CudaKernelPlan PlanCudaKernel(const Program& program, const Kernel& kernel,
                              const v1::CudaTarget& target);

// A line for each nest, with what follows from its plan in parentheses (DetailsOf), and one for
// each function that several share.
std::string ToString(const CudaKernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_KERNEL_H_
