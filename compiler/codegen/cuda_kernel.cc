#include "compiler/codegen/cuda_kernel.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/codegen/cuda_alike.h"
#include "compiler/codegen/cuda_nest.h"
#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

// Nests that share a launch share its block size.
constexpr int kSharedThreads = 256;
// What the driver takes as one parameter on every device.
constexpr size_t kMostParameterBytes = 4096;
constexpr size_t kMostNameLength = 64;
constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;
// Where kernels can wait for those before them (tk::wait_for_launches).
constexpr int kWaitingArchitecture = 90;
// Kernels that move more do not: with a wait ahead, the compiler knows no memory to be constant,
// and issues no load before a store that comes first in the text. Small ones gain more than they
// lose.
constexpr int64_t kMostBytesOfWaiting = 16 << 20;

// 32-bit indices reach every element; symbolic sizes may be anything.
bool NeedsWideIndex(const Program& program, const Kernel& kernel) {
  const auto wide = [](const Expr& count) {
    const auto value = count.AsConstant();
    return !value || *value > kMostIndex;
  };
  const auto wide_buffer = [&](BufferId id) {
    const BufferInfo& buffer = program.buffers[id];
    return wide(StorageElements(buffer.sizes, buffer.strides));
  };
  for (const Nest& nest : kernel.nests) {
    if (wide(sym::Product(nest.outer) * sym::Product(nest.inner))) return true;
    for (const NestMember& member : nest.members) {
      for (const Inst& inst : member.loops.block.insts) {
        if (inst.kind == InstKind::kLoad && wide_buffer(inst.buffer)) return true;
      }
      for (const Store& store : member.loops.stores) {
        if (wide_buffer(store.buffer)) return true;
      }
    }
  }
  return false;
}

int64_t BytesOf(const Program& program, const Kernel& kernel) {
  std::set<BufferId> touched;
  for (const Nest& nest : kernel.nests) {
    for (const NestMember& member : nest.members) {
      const Accesses accesses = AccessesOf(member.loops);
      touched.insert(accesses.reads.begin(), accesses.reads.end());
      touched.insert(accesses.writes.begin(), accesses.writes.end());
    }
    for (BufferId id : nest.local) touched.erase(id);
  }
  int64_t bytes = 0;
  for (BufferId id : touched) bytes += BufferBytes(program.buffers[id]);
  return bytes;
}

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
                                const v1::CudaTarget& target) {
  const bool wide = NeedsWideIndex(program, kernel);
  KernelInterface interface(CudaArguments(wide));
  const int fixed = kernel.nests.size() > 1 ? kSharedThreads : 0;
  std::string functions, finish_functions;
  std::vector<std::pair<std::string, Expr>> parts, finish_parts;
  int shared_bytes = 0, threads = fixed, resident = 1;
  std::vector<PlannedNest> nests;
  for (const Nest& nest : kernel.nests) {
    nests.push_back({PrepareForCuda(program, nest), {}});
    nests.back().plan = PlanCudaNest(program, nests.back().nest, target, fixed);
  }
  AlikeNests alike{.done = std::vector<bool>(nests.size(), false)};
  if (nests.size() > 1) alike = ShareFunctions(program, nests, wide, &interface);
  functions = alike.functions;
  parts = alike.parts;
  for (size_t i = 0; i < nests.size(); ++i) {
    if (alike.done[i]) continue;
    const auto& [nest, plan] = nests[i];
    const std::string name = absl::StrCat("nest", i);
    CudaNestText text = EmitCudaNest(program, nest, plan, name, &interface);
    absl::StrAppend(&functions, text.function, "\n");
    parts.emplace_back(absl::StrCat(name, "(args, block, blocks, shared)"), plan.blocks);
    for (FinishText& finish : text.finishes) {
      absl::StrAppend(&finish_functions, finish.text, "\n");
      finish_parts.emplace_back(absl::StrCat(finish.name, "(args, block, shared)"), finish.blocks);
    }
    shared_bytes = std::max(shared_bytes, text.shared_bytes);
    threads = std::max(threads, plan.threads);
    resident = std::max(resident, plan.resident);
  }

  KernelSource source;
  const std::string name = FunctionName(kernel);
  const std::string dispatch = Dispatch(parts, &interface);
  const std::string finish_dispatch =
      finish_parts.empty() ? "" : Dispatch(finish_parts, &interface);
  std::string head = absl::StrCat(
      "#include \"tensord/cuda.cuh\"\n\nusing index = ", wide ? "int64_t" : "int", ";\n");
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
  const bool waits =
      target.sm() >= kWaitingArchitecture && BytesOf(program, kernel) <= kMostBytesOfWaiting;
  source.source = absl::StrCat(head, functions, finish_functions,
                               Entry(name, threads, resident, kShared, dispatch, waits));
  source.functions.push_back(
      {name, CudaGeometry{SumOfBlocks(parts), threads, shared_bytes, waits}});
  if (!finish_parts.empty()) {
    const std::string finish = absl::StrCat(name, "_finish");
    const bool finish_waits = target.sm() >= kWaitingArchitecture;
    constexpr const char* kFinishShared =
        "  __shared__ __align__(16) char shared[tk::kFinishSharedBytes];\n";
    absl::StrAppend(&source.source, "\n",
                    Entry(finish, kFinishThreads, 1, kFinishShared, finish_dispatch, finish_waits));
    source.functions.push_back(
        {finish, CudaGeometry{SumOfBlocks(finish_parts), kFinishThreads, 0, finish_waits}});
  }
  source.buffers = interface.buffers();
  source.written = interface.written();
  source.integers = interface.integers();
  source.scratch_bytes = interface.scratch_bytes();
  source.counters = interface.counters();
  source.nodes = NodesOf(kernel);
  TENSORD_CHECK((source.buffers.size() + source.integers.size() + 2) * 8 <= kMostParameterBytes,
                "a launch has more arguments than a kernel takes");
  return source;
}

}  // namespace tensord::compiler
