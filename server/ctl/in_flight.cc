// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <string>

#include "base/sha256.h"
#include "server/ctl/commands.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

// "pid 71 (job train, rank 3)"
std::string Describe(const v1::Caller& caller) {
  const std::string job = caller.job().empty()
                              ? ""
                              : absl::StrCat(" (job ", caller.job(), ", rank ", caller.rank(), ")");
  return absl::StrCat("pid ", caller.pid(), job);
}

std::string KernelsOf(const v1::CompileProgress& compile) {
  if (compile.kernels() == 0) return "-";
  return fmt::format("{} of {}", compile.kernels_ready(), compile.kernels());
}

}  // namespace

int InFlight(const Client& client) {
  v1::CompilesUpdate update;
  if (const int code = Ask(client, v1::WatchCompilesRequest(), &update); code != kExitOk) {
    return code;
  }
  if (client.json) return PrintJson(update), kExitOk;
  Table table({"KEY", "LABEL", ">NODES", "STAGE", ">KERNELS", ">DONE", ">SINCE", "WHO WAITS"});
  for (const v1::CompileProgress& compile : update.compiles()) {
    table.Add(
        {ToHex(compile.program_key()).substr(0, 12), compile.label(), absl::StrCat(compile.nodes()),
         absl::AsciiStrToLower(v1::CompileProgress::Stage_Name(compile.stage())),
         KernelsOf(compile), fmt::format("{:.0f} %", 100 * compile.share()),
         HumanNanoseconds(compile.elapsed_nanoseconds()),
         absl::StrJoin(compile.callers(), ", ", [](std::string* out, const v1::Caller& caller) {
           absl::StrAppend(out, Describe(caller));
         })});
  }
  Print(table.ToString());
  return kExitOk;
}

}  // namespace tensord::server
