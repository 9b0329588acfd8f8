// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/cxx/host_program.h"

#include <absl/strings/match.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

extern char** environ;

namespace tensord::jit {
namespace {

// What would change the compiler's output, its language or where it leaves its files.
constexpr std::string_view kDropped[] = {"LC_",
                                         "LANG=",
                                         "LANGUAGE=",
                                         "TMPDIR=",
                                         "CPATH=",
                                         "CPLUS_INCLUDE_PATH=",
                                         "GCC_EXEC_PREFIX=",
                                         "COMPILER_PATH=",
                                         "LIBRARY_PATH=",
                                         "DEPENDENCIES_OUTPUT="};

std::vector<std::string> Environment(const std::string& folder) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool dropped = std::any_of(std::begin(kDropped), std::end(kDropped),
                                     [&](std::string_view name) { return text.starts_with(name); });
    if (!dropped) result.emplace_back(text);
  }
  result.push_back("LC_ALL=C");
  result.push_back("TMPDIR=" + folder);
  return result;
}

}  // namespace

absl::StatusOr<ProcessResult> RunHostProgram(const std::vector<std::string>& command,
                                             const std::string& folder) {
  Command program;
  program.argv = command;
  program.environment = Environment(folder);
  program.folder = folder;
  return RunProcess(std::move(program));
}

std::string MachinesTrouble(const ProcessResult& result) {
  constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EROFS, EMFILE, ENFILE, ENOMEM, EAGAIN};
  if (result.exit_code == 0) return "";
  for (const int error : kErrors) {
    // Both are in the C locale.
    if (const char* words = strerror(error); absl::StrContains(result.output, words)) return words;
  }
  return "";
}

bool WasKilled(const ProcessResult& result) {
  return result.exit_code == 128 + SIGKILL ||
         (result.exit_code != 0 && absl::StrContains(result.output, "Killed signal terminated"));
}

}  // namespace tensord::jit
