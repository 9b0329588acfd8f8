// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/verify_kernels.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <string>

#include "compiler/schedule/access.h"
#include "compiler/schedule/device.h"

namespace tensord::compiler {
namespace {

// What the nests of a kernel write to memory.
std::set<BufferId> WrittenBy(const Program& program, const Kernel& kernel) {
  std::set<BufferId> all;
  for (const Nest& nest : kernel.nests) {
    for (const auto* members : {&nest.members, &nest.after}) {
      for (const NestMember& member : *members) {
        for (const BufferId id : AccessesOf(program.operations[member.op]).writes) {
          if (nest.local.count(id) == 0) all.insert(id);
        }
      }
    }
  }
  return all;
}

// What is wrong with it, or nothing.
std::string FunctionFault(const KernelSource& kernel, bool is_cuda) {
  std::set<std::string> names;
  for (const KernelFunction& function : kernel.functions) {
    if (!names.insert(function.name).second) return "two functions " + function.name;
    if (kernel.source.find(function.name) == std::string::npos) {
      return absl::StrCat("the source has no function ", function.name);
    }
    if (function.cuda.has_value() != is_cuda) return "a function for another device";
    if (is_cuda && (function.cuda->block < 1 || function.cuda->block > kMostThreads)) {
      return absl::StrCat("a block of ", function.cuda->block, " threads");
    }
  }
  return names.empty() ? "no function" : "";
}

std::string ArgumentFault(const Program& program, const Kernel& kernel,
                          const KernelSource& source) {
  const std::set<BufferId> buffers(source.launch.buffers.begin(), source.launch.buffers.end());
  const std::set<BufferId> written(source.launch.written.begin(), source.launch.written.end());
  const auto includes = [](const std::set<BufferId>& all, const std::set<BufferId>& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
  };
  if (!includes(buffers, written)) return "writes what is no argument";
  if (!includes(written, WrittenBy(program, kernel))) return "does not say what it writes";
  for (const Nest& nest : kernel.nests) {
    for (const BufferId id : nest.local) {
      if (buffers.count(id) > 0) return absl::StrCat("local buffer ", id, " is an argument");
    }
  }
  for (const Expr& e : source.launch.integers) {
    if (sym::ContainsKind(e, sym::AtomKind::kLoop)) return "an integer counts a loop";
  }
  return "";
}

}  // namespace

absl::Status VerifyKernels(const Program& program, const Schedule& schedule,
                           const std::vector<KernelSource>& kernels, bool is_cuda) {
  if (kernels.size() != schedule.steps.size()) return absl::InternalError("a step has no kernel");
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[i].work);
    if (kernel == nullptr && AttentionOf(program, schedule.steps[i]) == nullptr) continue;
    std::string fault = FunctionFault(kernels[i], is_cuda);
    if (fault.empty() && kernel != nullptr) fault = ArgumentFault(program, *kernel, kernels[i]);
    if (!fault.empty()) return absl::InternalError(absl::StrCat("step ", i, ": ", fault));
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler
