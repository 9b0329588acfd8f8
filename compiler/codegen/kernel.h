// The generated kernels of a program, whichever target they are for.
#ifndef TENSORD_COMPILER_CODEGEN_KERNEL_H_
#define TENSORD_COMPILER_CODEGEN_KERNEL_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"

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
  std::string source;  // names normalised: equal kernels have equal text
  // Launched one after the other, all with the same arguments.
  std::vector<KernelFunction> functions;
  std::vector<BufferId> buffers;   // in the order of the kernel's arguments
  std::vector<BufferId> written;   // those of them that it writes
  std::vector<Expr> integers;      // free of loop symbols
  Expr scratch_bytes;              // CPU: of each thread; CUDA: of the launch, in the workspace
  Expr counters;                   // CUDA: of the launch, 4 bytes each, zero before and after it
  std::vector<std::string> nodes;  // captured ones that it came from
};

KernelSource GenerateKernel(const Program& program, const Kernel& kernel, const v1::Target& target);

// The captured nodes of a kernel.
std::vector<std::string> NodesOf(const Kernel& kernel);

// Nodes for people, the first few of them.
std::string DescribeNodes(std::vector<std::string> names);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_KERNEL_H_
