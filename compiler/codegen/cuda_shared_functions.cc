#include "compiler/codegen/cuda_shared_functions.h"

#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "compiler/codegen/cuda_nest.h"

namespace tensord::compiler {
namespace {

constexpr const char* kName = "nest_of_many";

// The nests of one function; their arguments follow each other.
struct Family {
  std::string function;
  std::vector<size_t> nests;
  std::vector<BufferId> buffers, written;
  std::vector<Expr> integers;
};

ArgumentStyle ArgumentsOfMany(bool wide_index) {
  ArgumentStyle style = CudaArguments(wide_index);
  style.pointer = "args.b[first_buffer + $0]";
  style.integer = "args.n[first_integer + $0]";
  return style;
}

// Adds the function to `out`, with one beside it that tells the launch's blocks apart.
void Emit(const Family& family, size_t number, const std::vector<PlannedCudaNest>& nests,
          KernelInterface* interface, SharedFunctions* out) {
  const size_t count = family.nests.size();
  const std::string all = absl::StrCat("alike", number);
  Expr blocks(0);
  std::vector<Expr> ends;
  for (size_t i : family.nests) ends.push_back(blocks += nests[i].plan.blocks);
  const int first_end = interface->AppendIntegers(ends);
  const int first_integer = interface->AppendIntegers(family.integers);
  const int first_buffer = interface->AppendBuffers(family.buffers);
  const auto of_each = [&](const std::string& first, size_t total) {
    return absl::StrCat(first, " + part * ", total / count);
  };
  absl::StrAppend(&out->functions, "namespace ", all, " {\n", family.function,
                  "static __device__ __forceinline__ void all(const Args& args, const int block, "
                  "tk::GroupMemory& shared) {\n"
                  "  const auto end = [&](int part) { return static_cast<int>(args.n[",
                  first_end, " + part]); };\n  const int part = tk::part_of(", count,
                  ", block, end), start = part > 0 ? end(part - 1) : 0;\n  ", kName,
                  "(args, block - start, end(part) - start, shared, ",
                  of_each(absl::StrCat(first_buffer), family.buffers.size()), ", ",
                  of_each(absl::StrCat(first_integer), family.integers.size()),
                  ");\n}\n}  // namespace ", all, "\n\n");
  out->parts.emplace_back(absl::StrCat(all, "::all(args, block, shared)"), blocks);
  for (size_t i : family.nests) out->done[i] = true;
  for (BufferId id : family.written) interface->MarkWritten(id);
}

}  // namespace

SharedFunctions EmitSharedFunctions(const Program& program, const CudaKernelPlan& plan,
                                    KernelInterface* interface) {
  SharedFunctions result{.done = std::vector<bool>(plan.nests.size(), false)};
  for (size_t number = 0; number < plan.shared_functions.size(); ++number) {
    Family family{.nests = plan.shared_functions[number]};
    for (size_t i : family.nests) {
      const auto& [nest, nest_plan] = plan.nests[i];
      KernelInterface local(ArgumentsOfMany(plan.wide_index));
      const CudaNestText text = EmitCudaNest(program, nest, nest_plan, kName, &local);
      if (family.function.empty()) family.function = text.function;
      TENSORD_CHECK(family.function == text.function, "structurally equal nests differ in text");
      const LaunchInterface& launch = local.launch();
      family.buffers.insert(family.buffers.end(), launch.buffers.begin(), launch.buffers.end());
      family.integers.insert(family.integers.end(), launch.integers.begin(), launch.integers.end());
      family.written.insert(family.written.end(), launch.written.begin(), launch.written.end());
    }
    Emit(family, number, plan.nests, interface, &result);
  }
  return result;
}

}  // namespace tensord::compiler
