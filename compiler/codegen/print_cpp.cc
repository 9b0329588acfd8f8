// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "compiler/codegen/print.h"

namespace tensord::compiler {
namespace {

class CppPrinter : public KernelPrinter {
 public:
  std::string Print(const ir::Kernel& kernel) {
    return absl::StrCat(
        "#include \"tensord/cpu.h\"\n",
        IncludeOf(ir::PreludeFunction::kSpecial, kernel, "tensord/cpu/lift_special.h"), "\n",
        FunctionsText(kernel), ContextText(*kernel.cpu), TaskText(*kernel.cpu),
        EntryText(*kernel.cpu));
  }

 protected:
  std::string IndexType() const override { return "int64_t"; }
  std::string ArgumentsType() const override { return "const TensordKernelArgs*"; }
  std::string BufferText(const std::string& position) const override {
    return absl::StrCat("args->buffers[", position, "]");
  }
  std::string IntegerText(const std::string& position) const override {
    return absl::StrCat("args->integers[", position, "]");
  }
  std::string ScratchText() const override { return "args->scratch"; }
  std::string BoundIndexType() const override { return "const int64_t"; }
  std::string FunctionPrefix(ir::Role) const override { return "static void"; }

 private:
  // What all tasks are told.
  static std::string ContextText(const ir::CpuEntry& entry) {
    std::string text =
        "struct Context {\n  const TensordKernelArgs* args;\n  int64_t tasks;\n"
        "  int64_t stride;\n";
    for (size_t i = 0; i < entry.nests.size(); ++i) {
      absl::StrAppend(&text, "  int64_t units", i, ";\n");
    }
    return text + "};\n\n";
  }

  // Each task's share of each nest.
  static std::string TaskText(const ir::CpuEntry& entry) {
    std::string text =
        "static void run(int64_t begin, int64_t end, void* context) {\n"
        "  const Context& c = *static_cast<const Context*>(context);\n"
        "  for (int64_t task = begin; task < end; ++task) {\n"
        "    char* scratch = static_cast<char*>(c.args->scratch) + task * c.stride;\n";
    for (size_t i = 0; i < entry.nests.size(); ++i) {
      absl::StrAppend(&text, "    ", entry.nests[i].function, "(c.args, c.units", i,
                      " * task / c.tasks, c.units", i, " * (task + 1) / c.tasks, scratch);\n");
    }
    return text + "  }\n}\n\n";
  }

  std::string EntryText(const ir::CpuEntry& entry) const {
    std::string units, finish;
    std::vector<std::string> work, unit_names;
    const std::string stride = Text(entry.stride);
    for (size_t i = 0; i < entry.nests.size(); ++i) {
      const ir::CpuNest& nest = entry.nests[i];
      absl::StrAppend(&units, "  const int64_t units", i, " = ", Text(nest.units), ";\n");
      work.push_back(Text(nest.work));
      unit_names.push_back(absl::StrCat("units", i));
      if (!nest.finish.empty()) {
        absl::StrAppend(&finish, "  ", nest.finish, "(args, tasks, ", stride, ");\n");
      }
    }
    return absl::StrCat("extern \"C\" __attribute__((visibility(\"default\"))) void ", entry.name,
                        "(const TensordKernelArgs* args) {\n", Text(entry.integers, 1), units,
                        "  const int64_t work = ", absl::StrJoin(work, " + "),
                        ";\n  int64_t tasks = work / ", entry.work_of_task,
                        " + 1;\n  if (tasks > args->host->threads) tasks = args->host->threads;\n"
                        "  Context context{args, tasks, ",
                        stride, ", ", absl::StrJoin(unit_names, ", "),
                        "};\n  if (tasks == 1) {\n    run(0, 1, &context);\n  } else {\n"
                        "    args->host->parallel_for(0, tasks, 1, run, &context);\n  }\n",
                        finish, "}\n");
  }
};

}  // namespace

std::string PrintCpp(const ir::Kernel& kernel) { return CppPrinter().Print(kernel); }

}  // namespace tensord::compiler
