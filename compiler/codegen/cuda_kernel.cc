#include "compiler/codegen/cuda_kernel.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/codegen/cuda_nest.h"
#include "compiler/codegen/cuda_shared_functions.h"

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

// Deals the blocks of a launch out to `parts`, in order.
std::string Dispatch(const std::vector<std::pair<std::string, Expr>>& parts,
                     KernelInterface* interface) {
  if (parts.size() == 1) {
    return absl::StrCat("  [[maybe_unused]] const int blocks = gridDim.x;\n  ", parts[0].first,
                        ";\n");
  }
  std::string text;
  for (const auto& [call, blocks] : parts) {
    const auto constant = blocks.AsConstant();
    const std::string count =
        constant ? absl::StrCat(*constant)
                 : absl::StrCat("static_cast<int>(args.n[", interface->Integer(blocks), "])");
    absl::StrAppend(&text, "  {\n    const int blocks = ", count,
                    ";\n    if (block < blocks) return ", call, ";\n    block -= blocks;\n  }\n");
  }
  return text;
}

Expr SumOfBlocks(const std::vector<std::pair<std::string, Expr>>& parts) {
  Expr sum(0);
  for (const auto& part : parts) sum += part.second;
  return sum;
}

std::string Entry(const std::string& name, int threads, int resident, const std::string& shared,
                  const std::string& dispatch, bool waits) {
  return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads,
                      resident > 1 ? absl::StrCat(", ", resident) : "", ") ", name,
                      "(const __grid_constant__ Args args) {\n",
                      waits ? "  tk::wait_for_launches();\n" : "", shared,
                      "  [[maybe_unused]] int block = blockIdx.x;\n", dispatch, "}\n");
}

}  // namespace

KernelSource GenerateCudaKernel(const Program& program, const Kernel& kernel,
                                const CudaKernelPlan& plan) {
  KernelInterface interface(CudaArguments(plan.wide_index));
  std::vector<std::pair<std::string, Expr>> parts, finish_parts;
  std::string finish_functions;
  int shared_bytes = 0;
  SharedFunctions shared = EmitSharedFunctions(program, plan, &interface);
  std::string functions = shared.functions;
  parts = shared.parts;
  for (size_t i = 0; i < plan.nests.size(); ++i) {
    if (shared.done[i]) continue;
    const auto& [nest, nest_plan] = plan.nests[i];
    const std::string name = absl::StrCat("nest", i);
    CudaNestText text = EmitCudaNest(program, nest, nest_plan, name, &interface);
    absl::StrAppend(&functions, text.function, "\n");
    parts.emplace_back(absl::StrCat(name, "(args, block, blocks, shared)"), nest_plan.blocks);
    for (FinishText& finish : text.finishes) {
      absl::StrAppend(&finish_functions, finish.text, "\n");
      finish_parts.emplace_back(absl::StrCat(finish.name, "(args, block, shared)"), finish.blocks);
    }
    shared_bytes = std::max(shared_bytes, text.shared_bytes);
  }

  KernelSource source;
  const std::string name = FunctionName(kernel);
  const std::string dispatch = Dispatch(parts, &interface);
  const std::string finish_dispatch =
      finish_parts.empty() ? "" : Dispatch(finish_parts, &interface);
  std::string head = absl::StrCat("#include \"tensord/cuda.cuh\"\n\nusing index = ",
                                  plan.wide_index ? "int64_t" : "int", ";\n");
  if (shared_bytes > 0) head += "extern __shared__ __align__(16) char shared_rows[];\n";
  head += "\nstruct Args {\n";
  // Only a kernel of empty tensors has none; it is never launched.
  if (!interface.buffers().empty()) {
    absl::StrAppend(&head, "  void* b[", interface.buffers().size(), "];\n");
  }
  if (!interface.scratch_bytes().Is(0)) head += "  char* scratch;\n";
  if (!interface.counters().Is(0)) head += "  unsigned* counters;\n";
  if (!interface.integers().empty()) {
    absl::StrAppend(&head, "  int64_t n[", interface.integers().size(), "];\n");
  }
  head += "};\n\n";
  constexpr const char* kShared =
      "  __shared__ __align__(16) char group_shared[tk::kGroupSharedBytes];\n"
      "  [[maybe_unused]] tk::GroupMemory shared{group_shared};\n";
  source.source =
      absl::StrCat(head, functions, finish_functions,
                   Entry(name, plan.threads, plan.resident, kShared, dispatch, plan.waits));
  source.functions.push_back(
      {name, CudaGeometry{SumOfBlocks(parts), plan.threads, shared_bytes, plan.waits}});
  if (!finish_parts.empty()) {
    const std::string finish = absl::StrCat(name, "_finish");
    constexpr const char* kFinishShared =
        "  __shared__ __align__(16) char shared[tk::kFinishSharedBytes];\n";
    absl::StrAppend(
        &source.source, "\n",
        Entry(finish, kFinishThreads, 1, kFinishShared, finish_dispatch, plan.finish_waits));
    source.functions.push_back(
        {finish, CudaGeometry{SumOfBlocks(finish_parts), kFinishThreads, 0, plan.finish_waits}});
  }
  source.launch = interface.launch();
  source.launch.scratch_of_launch = true;
  source.nodes = NodesOf(kernel);
  TENSORD_CHECK(
      (source.launch.buffers.size() + source.launch.integers.size() + 2) * 8 <= kMostParameterBytes,
      "a launch has more arguments than a kernel takes");
  return source;
}

}  // namespace tensord::compiler
