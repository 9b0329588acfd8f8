// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/nvrtc/backend.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "base/cuda_architecture.h"
#include "compiler/jit/nvrtc/library.h"
#include "compiler/jit/nvrtc/pch.h"
#include "compiler/jit/nvrtc/ptxas_log.h"
#include "kernels/embedded.h"

namespace tensord::jit {
namespace {

using Output = NvrtcLibrary::Output;

// Never --use_fast_math: NaN, infinity, signed zeros and denormals mean what they mean in eager.
// Contraction into FMA is NVRTC's default, as it is asked for on the CPU.
struct VersionedOption {
  NvrtcVersion since;
  const char* text;
};
constexpr VersionedOption kOptions[] = {
    {{12, 4}, "--std=c++20"},        {{12, 4}, "--device-as-default-execution-space"},
    {{12, 4}, "--disable-warnings"}, {{12, 4}, "--no-source-include"},
    {{12, 4}, "--ptxas-options=-v"},  // for UnitResources
    {{12, 8}, "--minimal"},           // neither textures nor launches from the device
    {{12, 9}, "--no-cache"},          // the store is the cache
};

struct Toolchain {
  const NvrtcLibrary* library;
  std::vector<std::string> options;
  Output output;
  std::string id;
};

// A cubin for the target's own architecture; else PTX for the newest one before it, from which the
// driver compiles.
absl::StatusOr<Toolchain> FindNvrtc(const v1::Target& target, const JitConfig& config) {
  const int sm = int(target.cuda().sm());
  if (sm <= 0)
    return absl::InvalidArgumentError(absl::StrCat("target.cuda.sm: no architecture ", sm));
  Toolchain result;
  TENSORD_ASSIGN_OR_RETURN(result.library, NvrtcLibrary::Find(config.nvrtc));
  const NvrtcVersion& version = result.library->version();
  const std::vector<int>& known = result.library->architectures();
  const auto after = std::upper_bound(known.begin(), known.end(), sm);
  if (after == known.begin())
    return absl::FailedPreconditionError(
        absl::StrCat("NVRTC ", version.major, ".", version.minor, " at ", result.library->path(),
                     " cannot compile for sm_", sm, ", only for sm_", known.front(),
                     " and later: set TENSORD_NVRTC to an older one"));
  const int architecture = *std::prev(after);
  result.output = architecture == sm ? Output::kCubin : Output::kPtx;
  const std::string own = absl::StrCat("sm_", architecture, HasWarpgroups(architecture) ? "a" : "");
  result.options.push_back(
      absl::StrCat("--gpu-architecture=",
                   result.output == Output::kCubin ? own : absl::StrCat("compute_", architecture)));
  for (const VersionedOption& option : kOptions)
    if (version >= option.since) result.options.push_back(option.text);
  result.id = absl::StrCat("nvrtc ", version.major, ".", version.minor, " | ",
                           absl::StrJoin(result.options, " "), " | prelude ",
                           std::string(kernels::CudaPreludeDigest()));
  return result;
}

constexpr char kFirstLine[] = "#include \"tensord/cuda.cuh\"\n";

class NvrtcBackend : public Backend {
 public:
  NvrtcBackend(Toolchain toolchain, std::string work_folder)
      : toolchain_(std::move(toolchain)),
        work_folder_(std::move(work_folder)),
        prelude_(PrecompiledPrelude::Of(*toolchain_.library, toolchain_.options)) {}

  v1::Module::Kind kind() const override {
    return toolchain_.output == Output::kCubin ? v1::Module::CUBIN : v1::Module::PTX;
  }

  absl::StatusOr<CompiledUnit> Compile(const v1::KernelUnit& unit) const override {
    if (absl::StartsWith(unit.source(), kFirstLine)) {
      if (const std::string pch = prelude_->Use(work_folder_); !pch.empty()) {
        std::vector<std::string> options = toolchain_.options;
        options.push_back("--use-pch=" + pch);
        absl::StatusOr<CompiledUnit> compiled = Compile(unit, options);
        // What failed is compiled again without: the fault may be the precompiled prelude's.
        if (compiled.ok() && compiled->failure.empty()) return compiled;
      }
    }
    return Compile(unit, toolchain_.options);
  }

 private:
  absl::StatusOr<CompiledUnit> Compile(const v1::KernelUnit& unit,
                                       const std::vector<std::string>& options) const {
    TENSORD_ASSIGN_OR_RETURN(NvrtcLibrary::Result result,
                             toolchain_.library->Compile(unit.source(), kernels::CudaPrelude(),
                                                         options, toolchain_.output));
    CompiledUnit compiled;
    if (result.ok) {
      compiled.binary = std::move(result.binary);
      compiled.resources = ParsePtxasLog(result.log);
    } else {
      compiled.failure =
          FailureText("NVRTC", unit, result.error,
                      absl::StrCat("nvrtc ", absl::StrJoin(options, " ")), result.log);
    }
    return compiled;
  }

  const Toolchain toolchain_;
  const std::string work_folder_;
  PrecompiledPrelude* const prelude_;
};

absl::StatusOr<std::unique_ptr<Backend>> Open(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(Toolchain toolchain, FindNvrtc(target, config));
  return std::make_unique<NvrtcBackend>(std::move(toolchain), config.work_folder);
}

absl::StatusOr<ToolchainInfo> InfoOf(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const Toolchain toolchain, FindNvrtc(target, config));
  return ToolchainInfo{toolchain.id, toolchain.library->path()};
}

absl::StatusOr<std::string> Describe(const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const NvrtcLibrary* library, NvrtcLibrary::Find(config.nvrtc));
  return absl::StrCat(library->version().major, ".", library->version().minor, ", ",
                      library->path());
}

}  // namespace

const BackendEntry kNvrtcBackend = {v1::Target::kCuda, "NVRTC", Open, InfoOf, Describe};

}  // namespace tensord::jit
