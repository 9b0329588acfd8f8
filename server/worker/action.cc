// SPDX-License-Identifier: Apache-2.0
#include "server/worker/action.h"

#include <absl/strings/str_cat.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "compiler/compile.h"
#include "compiler/jit/folder.h"
#include "server/program/job_file.h"
#include "server/program/keys.h"
#include "server/program/library_nodes.h"
#include "server/program/made_module.h"
#include "server/worker/thrown.h"

namespace tensord::server {
namespace {

namespace fs = std::filesystem;

constexpr int kExitFailed = 1, kExitUsage = 2;

struct Made {
  v1::ActionProgram program;
  std::map<std::string, std::string> binaries;  // by digest
};

// One attempt; `failed` has the units that did not compile, `some_made` says whether others did.
struct Attempt {
  std::vector<FailedUnit> failed;
  bool some_made = false;
};

// Units of one key are one kernel, which is made once.
struct Kernels {
  std::vector<std::string> keys;      // by module
  std::map<std::string, int> of_job;  // number in the JIT's job, by key
  v1::JitJob job;
};

Kernels KernelsOf(const v1::CompileResult& result, const v1::Target& target,
                  const std::string& toolchain) {
  Kernels kernels;
  *kernels.job.mutable_target() = target;
  for (const v1::KernelUnit& unit : result.units()) {
    kernels.keys.push_back(MakeKernelKey(unit, target, toolchain).Digest());
    if (kernels.of_job.emplace(kernels.keys.back(), kernels.job.units_size()).second) {
      *kernels.job.add_units() = unit;
    }
  }
  return kernels;
}

absl::StatusOr<Made> CompileOnce(const v1::CompileJob& job, const std::string& toolchain,
                                 const jit::JitConfig& jit, Attempt& attempt) {
  TENSORD_ASSIGN_OR_RETURN(v1::CompileResult result, compiler::Compile(job));
  const Kernels kernels = KernelsOf(result, job.target(), toolchain);
  v1::JitResult binaries;
  if (kernels.job.units_size() > 0) {
    TENSORD_ASSIGN_OR_RETURN(binaries, jit::Jit(kernels.job, jit));
  }
  for (const v1::UnitFailure& failure : binaries.failures()) {
    const auto& nodes = kernels.job.units(static_cast<int>(failure.unit())).nodes();
    attempt.failed.push_back({{nodes.begin(), nodes.end()}, failure.log()});
  }
  attempt.some_made = binaries.failures_size() < kernels.job.units_size();
  if (!attempt.failed.empty()) return absl::InternalError(attempt.failed[0].log);

  Made made;
  for (int i = 0; i < result.artifact().modules_size(); ++i) {
    const std::string& key = kernels.keys[static_cast<size_t>(i)];
    const int unit = kernels.of_job.at(key);
    const std::string& binary = binaries.binaries(unit);
    v1::Module& module = *result.mutable_artifact()->mutable_modules(i);
    module = MadeModule(binaries, unit);
    module.set_sha256(Sha256(binary));
    module.set_size(binary.size());
    module.set_kernel_key(key);
    made.binaries.emplace(module.sha256(), binary);
  }
  made.program.mutable_artifact()->Swap(result.mutable_artifact());
  made.program.mutable_units()->Swap(result.mutable_units());
  made.program.mutable_fusion_notes()->Swap(result.mutable_fusion_notes());
  made.program.mutable_fusion()->Swap(result.mutable_fusion());
  made.program.set_toolchain(toolchain);
  return made;
}

// As a daemon does: operators whose kernels do not compile become library calls.
absl::StatusOr<Made> Compile(v1::CompileJob job, const jit::JitConfig& jit) {
  TENSORD_ASSIGN_OR_RETURN(const jit::ToolchainInfo toolchain,
                           jit::FindToolchain(job.target(), jit));
  std::set<std::string> library;
  std::vector<std::string> logs;
  for (int round = 1;; ++round) {
    job.clear_library_nodes();
    for (const std::string& name : library) job.add_library_nodes(name);
    Attempt attempt;
    absl::StatusOr<Made> made = CompileOnce(job, toolchain.id, jit, attempt);
    if (made.ok()) {
      for (const std::string& log : logs) made->program.add_fusion_notes(LibraryNote(log));
    }
    if (made.ok() || !attempt.some_made || round == kLibraryRounds ||
        !AddLibraryNodes(job.graph(), attempt.failed, &library)) {
      return made;
    }
    for (const FailedUnit& unit : attempt.failed) logs.push_back(unit.log);
  }
}

absl::StatusOr<v1::CompileJob> ReadJob(const std::string& path) {
  TENSORD_ASSIGN_OR_RETURN(const std::string content, jit::ReadFile(path));
  TENSORD_ASSIGN_OR_RETURN(v1::CompileJob job, ParseJob(content));
  if (!job.has_target()) {
    return absl::InvalidArgumentError(
        "it is a graph alone, which does not say for which target: give a CompileJob");
  }
  // Of a repro: what became of it is no input.
  job.clear_failure();
  job.clear_library_nodes();
  return job;
}

absl::Status CheckOut(const std::string& out) {
  std::error_code error;
  if (!fs::exists(out, error) || (fs::is_directory(out, error) && fs::is_empty(out, error))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("it is there already, and is no empty folder");
}

absl::Status Write(const Made& made, const std::string& out) {
  const std::string blobs = out + "/blobs";
  std::error_code error;
  fs::create_directories(blobs, error);
  if (error) return absl::InternalError(absl::StrCat(blobs, ": ", error.message()));
  for (const auto& [digest, binary] : made.binaries) {
    TENSORD_RETURN_IF_ERROR(jit::WriteFile(absl::StrCat(blobs, "/", ToHex(digest)), binary));
  }
  return jit::WriteFile(out + "/program", made.program.SerializeAsString());
}

int Fail(const std::string& where, const absl::Status& status, int code) {
  std::fprintf(stderr, "tensord-worker: %s: %s\n", where.c_str(), status.ToString().c_str());
  return code;
}

}  // namespace

int RunAction(const ActionOptions& options, jit::JitConfig jit) {
  const auto job = ReadJob(options.in);
  if (!job.ok()) return Fail(options.in, job.status(), kExitUsage);
  if (const absl::Status out = CheckOut(options.out); !out.ok()) {
    return Fail(options.out, out, kExitUsage);
  }
  std::optional<jit::TemporaryFolder> temporary;
  if (jit.work_folder.empty()) {
    auto folder = jit::TemporaryFolder::Make(fs::temp_directory_path());
    if (!folder.ok()) return Fail("work folder", folder.status(), kExitFailed);
    jit.work_folder = temporary.emplace(*std::move(folder)).path();
  }
  absl::StatusOr<Made> made = Made();
  const absl::Status status = StatusOfThrown([&] {
    made = Compile(*job, jit);
    return made.status();
  });
  if (!status.ok()) return Fail(options.in, status, kExitFailed);
  const absl::Status written = Write(*made, options.out);
  if (written.ok()) return 0;
  std::error_code error;
  fs::remove_all(options.out, error);
  return Fail(options.out, written, kExitFailed);
}

}  // namespace tensord::server
