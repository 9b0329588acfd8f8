// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/codegen/print.h"

namespace tensord::compiler {
namespace {

class CudaPrinter : public KernelPrinter {
 public:
  explicit CudaPrinter(const ir::Kernel& kernel) : kernel_(kernel) {}

  std::string Print() {
    std::string text = absl::StrCat(HeadText(), FunctionsText(kernel_));
    for (const ir::CudaEntry& entry : kernel_.cuda) {
      absl::StrAppend(&text, &entry == &kernel_.cuda.front() ? "" : "\n", EntryText(entry));
    }
    return text;
  }

 protected:
  std::string IndexType() const override { return "index"; }
  std::string ArgumentsType() const override { return "const Args&"; }
  std::string BufferText(const std::string& position) const override {
    return absl::StrCat("args.b[", position, "]");
  }
  std::string IntegerText(const std::string& position) const override {
    return absl::StrCat("args.n[", position, "]");
  }
  std::string ScratchText() const override { return "args.scratch"; }
  std::string BoundIndexType() const override {
    return kernel_.wide_index ? "const int64_t" : "const int";
  }
  std::string Restrict() const override { return " __restrict__"; }
  std::string FunctionPrefix(ir::Role role) const override {
    return role == ir::Role::kFinish ? "static __device__ void"
                                     : "static __device__ __forceinline__ void";
  }

 private:
  std::string HeadText() const {
    std::string text = absl::StrCat(
        "#include \"tensord/cuda.cuh\"\n",
        IncludeOf(ir::PreludeFunction::kSpecial, kernel_, "tensord/cuda/lift_special.cuh"),
        IncludeOf(ir::PreludeFunction::kAttention, kernel_, "tensord/cuda/attention.cuh"),
        "\nusing index = ", kernel_.wide_index ? "int64_t" : "int", ";\n");
    if (std::any_of(kernel_.cuda.begin(), kernel_.cuda.end(),
                    [](const ir::CudaEntry& entry) { return entry.shared_bytes > 0; })) {
      text += "extern __shared__ __align__(16) char shared_rows[];\n";
    }
    text += "\nstruct Args {\n";
    if (kernel_.buffers > 0) absl::StrAppend(&text, "  void* b[", kernel_.buffers, "];\n");
    if (kernel_.has_scratch) text += "  char* scratch;\n";
    if (kernel_.has_counters) text += "  unsigned* counters;\n";
    if (kernel_.integers > 0) absl::StrAppend(&text, "  int64_t n[", kernel_.integers, "];\n");
    return text + "};\n\n";
  }

  std::string EntryText(const ir::CudaEntry& entry) const {
    constexpr const char* kGroupShared =
        "  __shared__ __align__(16) char group_shared[tk::kGroupSharedBytes];\n"
        "  tk::GroupMemory shared{group_shared};\n";
    constexpr const char* kFinishShared =
        "  __shared__ __align__(16) char shared[tk::kFinishSharedBytes];\n";
    return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", entry.threads,
                        entry.resident > 1 ? absl::StrCat(", ", entry.resident) : "", ") ",
                        entry.name, "(const __grid_constant__ Args args) {\n",
                        entry.waits ? "  tk::wait_for_launches();\n" : "",
                        entry.finishes ? kFinishShared : kGroupShared,
                        "  int block = blockIdx.x;\n", PartsText(entry), "}\n");
  }

  std::string PartsText(const ir::CudaEntry& entry) const {
    std::string text;
    for (const ir::CudaEntry::Part& part : entry.parts) {
      if (!part.blocks) {
        absl::StrAppend(&text, "  const int blocks = gridDim.x;\n  ", Text(part.call), ";\n");
        continue;
      }
      absl::StrAppend(&text, "  {\n    const int blocks = ", Text(part.blocks),
                      ";\n    if (block < blocks) return ", Text(part.call),
                      ";\n    block -= blocks;\n  }\n");
    }
    return text;
  }

  const ir::Kernel& kernel_;
};

}  // namespace

std::string PrintCuda(const ir::Kernel& kernel) { return CudaPrinter(kernel).Print(); }

}  // namespace tensord::compiler
