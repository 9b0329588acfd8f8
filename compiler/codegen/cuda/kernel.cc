// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/kernel.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "compiler/codegen/cuda/nest.h"
#include "compiler/codegen/cuda/shared_functions.h"
#include "compiler/codegen/print.h"

namespace tensord::compiler {
namespace {

// What the driver takes as one parameter on every device.
constexpr size_t kMostParameterBytes = 4096;
constexpr size_t kMostNameLength = 64;

// "tensord_layer_norm_gelu": what profilers show. Numbers of nodes are left out, so that equal
// kernels have equal text.
std::string FunctionName(const Kernel& kernel) {
  std::string name = "tensord";
  std::set<std::string> seen;
  for (const Nest& nest : kernel.nests) {
    for (const NestMember& member : nest.members) {
      for (absl::string_view node : absl::StrSplit(member.loops.origin, ", ")) {
        while (!node.empty() && (absl::ascii_isdigit(node.back()) || node.back() == '_')) {
          node.remove_suffix(1);
        }
        std::string word(node);
        std::replace_if(
            word.begin(), word.end(), [](char c) { return !absl::ascii_isalnum(c); }, '_');
        if (word.empty() || name.size() + word.size() > kMostNameLength) continue;
        if (seen.insert(word).second) absl::StrAppend(&name, "_", word);
      }
    }
  }
  return name;
}

// Adds an entry that deals its blocks out to `parts`, in order.
void AddEntry(ir::CudaEntry entry, const std::vector<CudaPart>& parts, KernelInterface* interface,
              KernelSource* source) {
  Expr grid(0);
  for (const CudaPart& part : parts) {
    grid += part.blocks;
    ir::Value count;
    if (parts.size() > 1) {
      const auto constant = part.blocks.AsConstant();
      count = constant
                  ? ir::Value(*constant)
                  : ir::CastTo(ir::kIntType, ir::IntegerArgument(interface->Integer(part.blocks)));
    }
    entry.parts.push_back({part.call, count});
  }
  source->functions.push_back(
      {entry.name, CudaGeometry{grid, entry.threads, entry.shared_bytes, entry.waits}});
  source->ir.cuda.push_back(std::move(entry));
}

ir::Value CallOf(const std::string& function, bool finishes) {
  std::vector<ir::Value> operands = {ir::Var("args", ir::kArgumentsType), BlockNumber()};
  if (!finishes) operands.push_back(Blocks());
  operands.push_back(GroupMemory());
  return ir::CallOfFunction(function, std::move(operands));
}

}  // namespace

KernelSource GenerateCudaKernel(const Program& program, const Kernel& kernel,
                                const CudaKernelPlan& plan) {
  KernelSource source;
  ir::Kernel& ir = source.ir;
  ir.device = ir::Kernel::kCuda;
  ir.wide_index = plan.wide_index;
  KernelInterface interface;
  std::vector<CudaPart> finish_parts;
  std::vector<ir::Function> finish_functions;
  int shared_bytes = 0;
  SharedFunctions shared = LowerSharedFunctions(program, plan, &interface);
  ir.functions = std::move(shared.functions);
  std::vector<CudaPart> parts = std::move(shared.parts);
  std::vector<std::vector<CudaPart>> before;  // by launch
  for (size_t i = 0; i < plan.nests.size(); ++i) {
    if (shared.done[i]) continue;
    const auto& [nest, nest_plan] = plan.nests[i];
    const std::string name = absl::StrCat("nest", i);
    CudaNestFunctions lowered = LowerCudaNest(program, nest, nest_plan, name, &interface);
    for (size_t n = 0; n < lowered.totals.size(); ++n) {
      before.resize(std::max(before.size(), n + 1));
      before[n].push_back({CallOf(lowered.totals[n].name, false), nest_plan.blocks});
      ir.functions.push_back(std::move(lowered.totals[n]));
    }
    for (ir::Function& function : lowered.functions) ir.functions.push_back(std::move(function));
    parts.push_back({CallOf(name, false), nest_plan.blocks});
    for (CudaFinish& finish : lowered.finishes) {
      finish_parts.push_back({CallOf(finish.function.name, true), finish.blocks});
      finish_functions.push_back(std::move(finish.function));
    }
    shared_bytes = std::max(shared_bytes, lowered.shared_bytes);
  }
  for (ir::Function& function : finish_functions) ir.functions.push_back(std::move(function));

  const std::string name = FunctionName(kernel);
  for (size_t n = 0; n < before.size(); ++n) {
    AddEntry({.name = absl::StrCat(name, "_totals", n + 1),
              .threads = plan.threads,
              .resident = plan.resident,
              .shared_bytes = shared_bytes,
              .waits = plan.waits},
             before[n], &interface, &source);
  }
  AddEntry({.name = name,
            .threads = plan.threads,
            .resident = plan.resident,
            .shared_bytes = shared_bytes,
            .waits = plan.waits},
           parts, &interface, &source);
  if (!finish_parts.empty()) {
    AddEntry({.name = absl::StrCat(name, "_finish"),
              .threads = plan.finish_threads,
              .waits = plan.finish_waits,
              .finishes = true},
             finish_parts, &interface, &source);
  }
  interface.Describe(&ir);
  source.source = PrintCuda(ir);
  source.launch = interface.launch();
  source.launch.scratch_of_launch = true;
  source.nodes = NodesOf(kernel);
  TENSORD_CHECK(
      (source.launch.buffers.size() + source.launch.integers.size() + 2) * 8 <= kMostParameterBytes,
      "a launch has more arguments than a kernel takes");
  return source;
}

}  // namespace tensord::compiler
