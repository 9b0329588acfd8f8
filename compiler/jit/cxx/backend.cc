// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/cxx/backend.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <filesystem>

#include "compiler/jit/cxx/host_program.h"
#include "compiler/jit/cxx/prelude.h"
#include "compiler/jit/cxx/toolchain.h"
#include "compiler/jit/folder.h"

namespace tensord::jit {
namespace {

class CxxBackend : public Backend {
 public:
  CxxBackend(CxxToolchain toolchain, std::string work_folder, std::string seal_key)
      : toolchain_(std::move(toolchain)),
        work_folder_(std::move(work_folder)),
        seal_key_(std::move(seal_key)) {}

  v1::Module::Kind kind() const override { return v1::Module::SHARED_OBJECT; }

  absl::StatusOr<CompiledUnit> Compile(const v1::KernelUnit& unit) const override {
    TENSORD_ASSIGN_OR_RETURN(const std::string prelude,
                             PreparePrelude(toolchain_, work_folder_, seal_key_));
    TENSORD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make(work_folder_));
    TENSORD_RETURN_IF_ERROR(WriteFile(folder.path() + "/kernel.cc", unit.source()));
    std::vector<std::string> command = {toolchain_.path};
    command.insert(command.end(), toolchain_.flags.begin(), toolchain_.flags.end());
    command.push_back("-I" + prelude);
    // Names without folders: the binary must not depend on where it was made.
    for (std::string& word : LinkArguments("kernel.cc", "kernel.so"))
      command.push_back(std::move(word));
    TENSORD_ASSIGN_OR_RETURN(ProcessResult result, RunHostProgram(command, folder.path()));
    // Of the memory of all, it takes the largest process: a moment later there may be enough.
    if (WasKilled(result)) {
      TENSORD_ASSIGN_OR_RETURN(result, RunHostProgram(command, folder.path()));
    }
    CompiledUnit compiled;
    if (const std::string trouble = MachinesTrouble(result); !trouble.empty()) {
      return absl::InternalError(absl::StrCat("the C++ compiler met '", trouble, "' in ",
                                              work_folder_, ":\n", result.output));
    }
    if (result.exit_code != 0) {
      compiled.failure =
          FailureText("the C++ compiler", unit, absl::StrCat("exit ", result.exit_code),
                      absl::StrJoin(command, " "), result.output);
      return compiled;
    }
    TENSORD_ASSIGN_OR_RETURN(compiled.binary, ReadFile(folder.path() + "/kernel.so"));
    return compiled;
  }

 private:
  const CxxToolchain toolchain_;
  const std::string work_folder_, seal_key_;
};

absl::StatusOr<std::unique_ptr<Backend>> Open(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(CxxToolchain toolchain, FindCxxToolchain(target, config));
  // Absolute, for compilers run in folders of their own.
  const std::string work_folder = std::filesystem::absolute(config.work_folder);
  RemoveStaleFolders(work_folder);
  // Units are compiled side by side: the first of them would make it once each.
  TENSORD_RETURN_IF_ERROR(PreparePrelude(toolchain, work_folder, config.seal_key).status());
  return std::make_unique<CxxBackend>(std::move(toolchain), work_folder, config.seal_key);
}

absl::StatusOr<ToolchainInfo> Toolchain(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const CxxToolchain toolchain, FindCxxToolchain(target, config));
  return ToolchainInfo{toolchain.id, toolchain.path};
}

absl::StatusOr<std::string> Describe(const JitConfig& config) {
  v1::Target target;
  target.mutable_cpu()->set_isa(v1::ISA_SCALAR);
  TENSORD_ASSIGN_OR_RETURN(const CxxToolchain toolchain, FindCxxToolchain(target, config));
  return absl::StrCat(toolchain.version, ", ", toolchain.path);
}

}  // namespace

const BackendEntry kCxxBackend = {v1::Target::kCpu, "C++ compiler", Open, Toolchain, Describe};

}  // namespace tensord::jit
