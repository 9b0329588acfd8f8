// The generated kernels of a program, whichever target they are for.
#ifndef TENSORD_COMPILER_CODEGEN_KERNEL_H_
#define TENSORD_COMPILER_CODEGEN_KERNEL_H_

#include <string>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Source of one kernel and what a launch passes to it.
struct KernelSource {
  std::string source;  // names normalised: equal kernels have equal text
  std::string function;
  std::vector<BufferId> buffers;  // in the order of the kernel's arguments
  std::vector<BufferId> written;  // those of them that it writes
  std::vector<Expr> integers;     // free of loop symbols
  Expr scratch_bytes_per_thread;
  std::string description;  // the captured nodes it came from
};

KernelSource GenerateKernel(const Program& program, const Kernel& kernel, const v1::Target& target);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_KERNEL_H_
