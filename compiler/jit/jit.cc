#include "compiler/jit/jit.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "compiler/jit/folder.h"
#include "compiler/jit/prelude.h"
#include "compiler/jit/process.h"
#include "compiler/jit/toolchain.h"

namespace tensord::jit {
namespace {

constexpr size_t kOutputLines = 40;

std::string LastLines(const std::string& text, size_t count) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - count);
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<std::string> CompileUnit(const v1::KernelUnit& unit, const Toolchain& toolchain,
                                        const std::string& prelude,
                                        const std::string& work_folder) {
  TENSORD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make(work_folder));
  TENSORD_RETURN_IF_ERROR(WriteFile(folder.path() + "/kernel.cc", unit.source()));
  std::vector<std::string> command = {toolchain.path};
  command.insert(command.end(), toolchain.flags.begin(), toolchain.flags.end());
  command.push_back("-I" + prelude);
  // Names without folders: the binary must not depend on where it was made.
  for (std::string& word : LinkArguments("kernel.cc", "kernel.so"))
    command.push_back(std::move(word));
  TENSORD_ASSIGN_OR_RETURN(const ProcessResult result, RunProcess(command, folder.path()));
  if (result.exit_code != 0) {
    return absl::InternalError(absl::StrCat(
        "the C++ compiler failed on kernel '", unit.description(), "' (exit ", result.exit_code,
        "):\n", absl::StrJoin(command, " "), "\n", LastLines(result.output, kOutputLines)));
  }
  return ReadFile(folder.path() + "/kernel.so");
}

int64_t NanosecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              start)
      .count();
}

}  // namespace

absl::StatusOr<v1::JitResult> Jit(const v1::JitJob& job, const JitConfig& config) {
  const auto start = std::chrono::steady_clock::now();
  TENSORD_ASSIGN_OR_RETURN(const Toolchain toolchain, FindToolchain(job.target(), config));
  // Absolute, for compilers run in folders of their own.
  const std::string work_folder = std::filesystem::absolute(config.work_folder);
  RemoveStaleFolders(work_folder);
  TENSORD_ASSIGN_OR_RETURN(const std::string prelude, PreparePrelude(toolchain, work_folder));
  v1::JitResult result;
  v1::StageTime* prepared = result.add_stages();
  prepared->set_stage("jit_prelude");
  prepared->set_nanoseconds(NanosecondsSince(start));

  const auto compile_start = std::chrono::steady_clock::now();
  std::vector<absl::StatusOr<std::string>> binaries(job.units_size(), absl::UnknownError(""));
  tbb::task_arena arena(
      std::clamp(config.parallelism, 1, std::max(1, tbb::info::default_concurrency())));
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int>(0, job.units_size(), 1),
        [&](const tbb::blocked_range<int>& range) {
          for (int i = range.begin(); i < range.end(); ++i)
            binaries[i] = CompileUnit(job.units(i), toolchain, prelude, work_folder);
        },
        tbb::simple_partitioner());
  });
  for (absl::StatusOr<std::string>& binary : binaries) {
    TENSORD_RETURN_IF_ERROR(binary.status());
    result.add_binaries(*std::move(binary));
  }
  v1::StageTime* compiled = result.add_stages();
  compiled->set_stage("jit_compile");
  compiled->set_nanoseconds(NanosecondsSince(compile_start));
  return result;
}

absl::StatusOr<std::string> ToolchainId(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(Toolchain toolchain, FindToolchain(target, config));
  return std::move(toolchain.id);
}

}  // namespace tensord::jit
