// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <set>
#include <vector>

#include "base/sha256.h"
#include "server/ctl/commands.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

int GetProgram(const Client& client, const std::string& hex, bool with_sources,
               v1::ProgramDetail* detail) {
  v1::GetProgramRequest request;
  if (!ReadKey(hex, request.mutable_key_prefix())) return kExitUsage;
  request.set_with_sources(with_sources);
  return Ask(client, request, detail);
}

std::string Describe(const v1::Step& step) {
  if (step.has_launch()) {
    return fmt::format("launch {} ({})", step.launch().function(), step.launch().description());
  }
  if (step.has_call()) {
    return fmt::format("call   {}{}{}", step.call().op(), step.call().overload().empty() ? "" : ".",
                       step.call().overload());
  }
  if (step.has_zero_fill()) return "zero   a part of the workspace";
  return fmt::format("free   buffer {}", step.free());
}

// Of a CUDA kernel: "  [32 registers, 4.0 KiB shared]".
std::string Resources(const v1::Module& module) {
  if (module.registers() == 0) return "";
  std::string text = fmt::format("  [{} registers", module.registers());
  if (module.shared_bytes() > 0)
    text += fmt::format(", {} shared", HumanBytes(module.shared_bytes()));
  if (module.spill_bytes() > 0)
    text += fmt::format(", {} spilled", HumanBytes(module.spill_bytes()));
  return text + "]";
}

// Where in the model a kernel comes from: "model.py:42 in forward: y = torch.tanh(x)".
std::vector<std::string> ModelLines(const v1::FusionGraph& fusion, int kernel) {
  std::set<uint32_t> numbers;
  for (const v1::FusionStep& step : fusion.steps()) {
    if (!step.has_kernel() || step.kernel() != static_cast<uint32_t>(kernel)) continue;
    for (const uint32_t node : step.nodes()) {
      const v1::FusionNode& from = fusion.nodes(static_cast<int>(node));
      if (from.has_line()) numbers.insert(from.line());
    }
  }
  std::vector<std::string> lines;
  for (const uint32_t number : numbers) {
    const v1::SourceLine& line = fusion.lines(static_cast<int>(number));
    lines.push_back(absl::StrCat(line.source(), line.text().empty() ? "" : ": ", line.text()));
  }
  return lines;
}

}  // namespace

int List(const Client& client, uint32_t limit, const std::string& search,
         const std::string& order) {
  v1::ListProgramsRequest request;
  request.set_limit(limit);
  request.set_search(search);
  v1::ListProgramsRequest::Order by = v1::ListProgramsRequest::USED;
  v1::ListProgramsRequest::Order_Parse(absl::AsciiStrToUpper(order), &by);
  request.set_order(by);
  v1::ListProgramsReply reply;
  const int code = Ask(client, request, &reply);
  if (code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  const int64_t now = time(nullptr);
  Table table({"KEY", "LABEL", "TARGET", ">NODES", ">KERNELS", ">EXTERNS", ">SIZE", ">HITS",
               ">COMPILE", ">USED"});
  for (const v1::ProgramSummary& p : reply.programs()) {
    table.Add({ToHex(p.key()).substr(0, 12), p.label(), p.target(), absl::StrCat(p.nodes()),
               absl::StrCat(p.kernels()), absl::StrCat(p.externs()), HumanBytes(p.bytes()),
               absl::StrCat(p.hits()), HumanNanoseconds(p.compile_nanoseconds()),
               HumanAge(now - p.used_unix())});
  }
  Print(table.ToString());
  return kExitOk;
}

int Show(const Client& client, const std::string& key) {
  v1::ProgramDetail detail;
  if (const int code = GetProgram(client, key, false, &detail); code != kExitOk) return code;
  if (client.json) return PrintJson(detail), kExitOk;
  const v1::ProgramSummary& s = detail.summary();
  const v1::Artifact& a = detail.artifact();
  Table head({"program", ToHex(s.key())});
  head.Add({"label", s.label()});
  head.Add({"target", s.target()});
  head.Add({"captured", fmt::format("{} operators", s.nodes())});
  head.Add({"plan", fmt::format("{} kernels, {} library calls, {} inputs, {} outputs, {} buffers",
                                s.kernels(), s.externs(), a.inputs_size(), a.outputs_size(),
                                a.buffers_size())});
  head.Add({"size", HumanBytes(s.bytes())});
  head.Add({"used", fmt::format("{} times", s.hits())});
  head.Add({"compiled with", detail.toolchain().substr(0, detail.toolchain().find(" | "))});
  head.Add({"compile", HumanNanoseconds(s.compile_nanoseconds())});
  Print(head.ToString());
  Print("\nsteps\n");
  for (int i = 0; i < a.steps_size(); ++i) {
    Print(fmt::format("  {:>3}  {}\n", i, Describe(a.steps(i))));
  }
  Print("\nkernels\n");
  for (int i = 0; i < detail.sources_size(); ++i) {
    const v1::KernelSource& k = detail.sources(i);
    Print(fmt::format("  {:>3}  {}  {}{}\n", i, k.function(), k.description(),
                      i < a.modules_size() ? Resources(a.modules(i)) : ""));
  }
  Print("\ncompile time\n");
  for (const v1::StageTime& stage : detail.stages()) {
    Print(fmt::format("  {:<16} {}\n", stage.stage(), HumanNanoseconds(stage.nanoseconds())));
  }
  if (detail.fusion_notes_size() > 0) Print("\nfusion\n");
  for (const std::string& note : detail.fusion_notes()) Print("  " + note + "\n");
  return kExitOk;
}

int Kernel(const Client& client, const std::string& key, int number) {
  v1::ProgramDetail detail;
  if (const int code = GetProgram(client, key, true, &detail); code != kExitOk) return code;
  if (number < 0 || number >= detail.sources_size()) {
    std::fprintf(stderr, "tensorctl: the program has %d kernels, numbered from 0\n",
                 detail.sources_size());
    return kExitError;
  }
  const v1::KernelSource& kernel = detail.sources(number);
  if (client.json) return PrintJson(kernel), kExitOk;
  Print(fmt::format("// {}: {}\n", kernel.function(), kernel.description()));
  for (const std::string& line : ModelLines(detail.fusion(), number)) Print("// " + line + "\n");
  Print(kernel.source() + "\n");
  return kExitOk;
}

}  // namespace tensord::server
