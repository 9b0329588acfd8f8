// SPDX-License-Identifier: Apache-2.0
// The generated kernels of a program, whichever target they are for.
#ifndef TENSORD_COMPILER_CODEGEN_KERNEL_H_
#define TENSORD_COMPILER_CODEGEN_KERNEL_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"
#include "compiler/schedule/launch.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

// How a CUDA function is launched.
struct CudaGeometry {
  Expr grid;                  // blocks
  int block = 0;              // threads of a block
  int shared_bytes = 0;       // dynamic shared memory of a block
  bool waits_itself = false;  // for the launches before it
};

struct KernelFunction {
  std::string name;
  std::optional<CudaGeometry> cuda;
};

// Source of one kernel and what a launch passes to it.
struct KernelSource {
  ir::Kernel ir;
  std::string source;  // the IR's text; names normalised: equal kernels have equal text
  // Launched one after the other, all with the same arguments.
  std::vector<KernelFunction> functions;
  LaunchInterface launch;
  std::vector<std::string> nodes;  // captured ones that it came from
};

// What memory planning knows of kernels; per step.
std::vector<LaunchInterface> LaunchesOf(const std::vector<KernelSource>& kernels);

// The captured nodes of a kernel.
std::vector<std::string> NodesOf(const Kernel& kernel);

// Nodes for people, the first few of them.
std::string DescribeNodes(std::vector<std::string> names);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_KERNEL_H_
