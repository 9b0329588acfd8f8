#include "compiler/codegen/cpu_kernel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "compiler/codegen/cpu_nest.h"

namespace tensord::compiler {
KernelSource GenerateCpuKernel(const Program& program, const Kernel& kernel,
                               const CpuKernelPlan& plan) {
  KernelInterface interface(kCpuArguments);
  std::vector<NestText> nests;
  for (size_t i = 0; i < plan.nests.size(); ++i) {
    nests.push_back(EmitNest(program, plan.nests[i].nest, plan.nests[i].plan,
                             absl::StrCat("nest", i), &interface));
  }
  std::string s = "#include \"tensord/cpu.h\"\n\n";
  for (const NestText& nest : nests) absl::StrAppend(&s, nest.function, "\n");
  for (const NestText& nest : nests) {
    if (!nest.finish.empty()) absl::StrAppend(&s, nest.finish, "\n");
  }
  absl::StrAppend(&s,
                  "struct Context {\n"
                  "  const TensordKernelArgs* args;\n"
                  "  int64_t tasks;\n"
                  "  int64_t stride;\n");
  for (size_t i = 0; i < nests.size(); ++i) absl::StrAppend(&s, "  int64_t units", i, ";\n");
  absl::StrAppend(&s,
                  "};\n\nstatic void run(int64_t begin, int64_t end, void* context) {\n"
                  "  const Context& c = *static_cast<const Context*>(context);\n"
                  "  for (int64_t task = begin; task < end; ++task) {\n"
                  "    char* scratch = static_cast<char*>(c.args->scratch) + task * c.stride;\n");
  for (size_t i = 0; i < nests.size(); ++i) {
    absl::StrAppend(&s, "    nest", i, "(c.args, c.units", i, " * task / c.tasks, c.units", i,
                    " * (task + 1) / c.tasks, scratch);\n");
  }
  absl::StrAppend(&s,
                  "  }\n}\n\nextern \"C\" __attribute__((visibility(\"default\"))) void "
                  "tensord_kernel(const TensordKernelArgs* args) {\n");
  std::vector<std::string> work, units, unit_names;
  std::string declarations;
  for (size_t i = 0; i < nests.size(); ++i) {
    absl::StrAppend(&declarations, "  const int64_t units", i, " = ", nests[i].units, ";\n");
    work.push_back(nests[i].work);
    unit_names.push_back(absl::StrCat("units", i));
  }
  const std::string stride = sym::ToCpp(interface.scratch_bytes(), [&](const sym::Atom& atom) {
    return absl::StrCat("n", interface.Integer(Expr::Size(atom.id, atom.min, atom.hint)));
  });
  std::string integers;
  for (size_t i = 0; i < interface.integers().size(); ++i) {
    absl::StrAppend(&integers, "  [[maybe_unused]] ",
                    interface.DeclareInteger(static_cast<int>(i)));
  }
  absl::StrAppend(&s, integers, declarations, "  const int64_t work = ", absl::StrJoin(work, " + "),
                  ";\n  int64_t tasks = work / ", plan.work_per_task,
                  " + 1;\n  if (tasks > args->host->threads) tasks = args->host->threads;\n"
                  "  Context context{args, tasks, ",
                  stride, ", ", absl::StrJoin(unit_names, ", "),
                  "};\n"
                  "  if (tasks == 1) {\n    run(0, 1, &context);\n  } else {\n"
                  "    args->host->parallel_for(0, tasks, 1, run, &context);\n  }\n");
  for (size_t i = 0; i < nests.size(); ++i) {
    if (!nests[i].finish.empty()) {
      absl::StrAppend(&s, "  nest", i, "_finish(args, tasks, ", stride, ");\n");
    }
  }
  s += "}\n";
  KernelSource source;
  source.source = std::move(s);
  source.functions = {{"tensord_kernel", std::nullopt}};
  source.launch = interface.launch();
  source.nodes = NodesOf(kernel);
  return source;
}

}  // namespace tensord::compiler
