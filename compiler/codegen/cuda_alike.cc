#include "compiler/codegen/cuda_alike.h"

#include <absl/strings/str_cat.h>

#include "compiler/codegen/cuda_nest.h"
#include "compiler/schedule/alike.h"

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
void Emit(const Family& family, size_t number, const std::vector<PlannedNest>& nests,
          KernelInterface* interface, AlikeNests* out) {
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

AlikeNests ShareFunctions(const Program& program, const std::vector<PlannedNest>& nests,
                          bool wide_index, KernelInterface* interface) {
  AlikeNests result{.done = std::vector<bool>(nests.size(), false)};
  std::vector<Family> families;
  for (size_t i = 0; i < nests.size(); ++i) {
    CudaPlan plan = nests[i].plan;
    if (plan.kind != CudaPlan::kElements || !HasAnySize(nests[i].nest)) continue;
    plan.of_many = true;
    KernelInterface local(ArgumentsOfMany(wide_index));
    const CudaNestText text = EmitCudaNest(program, nests[i].nest, plan, kName, &local);
    auto it = families.begin();
    while (it != families.end() && it->function != text.function) ++it;
    if (it == families.end()) it = families.insert(it, Family{text.function});
    it->nests.push_back(i);
    it->buffers.insert(it->buffers.end(), local.buffers().begin(), local.buffers().end());
    it->integers.insert(it->integers.end(), local.integers().begin(), local.integers().end());
    it->written.insert(it->written.end(), local.written().begin(), local.written().end());
  }
  size_t number = 0;
  for (const Family& family : families) {
    if (family.nests.size() < 2) continue;
    Emit(family, number++, nests, interface, &result);
  }
  return result;
}

}  // namespace tensord::compiler
