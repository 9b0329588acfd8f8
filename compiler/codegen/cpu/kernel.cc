// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/kernel.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/codegen/cpu/nest.h"
#include "compiler/codegen/print.h"

namespace tensord::compiler {

KernelSource GenerateCpuKernel(const Program& program, const Kernel& kernel,
                               const CpuKernelPlan& plan) {
  KernelInterface interface;
  ir::Kernel ir{.device = ir::Kernel::kCpu};
  ir::CpuEntry entry{.name = "tensord_kernel", .work_of_task = plan.work_per_task};
  std::vector<ir::Function> finishes;
  for (size_t i = 0; i < plan.nests.size(); ++i) {
    CpuNestFunctions nest = LowerCpuNest(program, plan.nests[i].nest, plan.nests[i].plan,
                                         absl::StrCat("nest", i), &interface);
    entry.nests.push_back({nest.function.name, nest.units, nest.work, ""});
    ir.functions.push_back(std::move(nest.function));
    if (!nest.finish) continue;
    entry.nests.back().finish = nest.finish->name;
    finishes.push_back(std::move(*nest.finish));
  }
  for (ir::Function& finish : finishes) ir.functions.push_back(std::move(finish));
  entry.stride = interface.OfSizes(interface.launch().scratch_bytes);
  for (size_t i = 0; i < interface.launch().integers.size(); ++i) {
    entry.integers.push_back(interface.BindInteger(static_cast<int>(i)));
  }
  ir.cpu = std::move(entry);
  interface.Describe(&ir);
  KernelSource source;
  source.source = PrintCpp(ir);
  source.functions = {{"tensord_kernel", std::nullopt}};
  source.launch = interface.launch();
  source.nodes = NodesOf(kernel);
  source.ir = std::move(ir);
  return source;
}

}  // namespace tensord::compiler
