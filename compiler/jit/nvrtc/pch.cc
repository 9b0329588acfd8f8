// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/nvrtc/pch.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

namespace tensord::jit {
namespace {

constexpr NvrtcVersion kSince = {12, 8};

}  // namespace

PrecompiledPrelude* PrecompiledPrelude::Of(const NvrtcLibrary& library,
                                           const std::vector<std::string>& options) {
  struct Known {
    absl::Mutex mutex;
    std::map<std::string, std::unique_ptr<PrecompiledPrelude>> preludes ABSL_GUARDED_BY(mutex);
  };
  static Known& known = *new Known;
  absl::MutexLock lock(&known.mutex);
  std::unique_ptr<PrecompiledPrelude>& prelude =
      known.preludes[absl::StrCat(library.path(), "\n", absl::StrJoin(options, " "))];
  if (!prelude) prelude.reset(new PrecompiledPrelude(library, options));
  return prelude.get();
}

std::string PrecompiledPrelude::Use(const std::string& work_folder) {
  {
    absl::MutexLock lock(&mutex_);
    if (!path_.empty() && access(path_.c_str(), R_OK) == 0) return path_;
    if (library_.version() < kSince || ++units_ != kUnitsBeforePch + 1) return "";
  }
  const std::string parent = std::filesystem::absolute(work_folder);
  RemoveStaleFolders(parent);  // of processes that ended
  absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make(parent);
  if (!folder.ok()) return "";
  const std::string path = folder->path() + "/prelude.pch";
  std::vector<std::string> options = options_;
  options.push_back("--create-pch=" + path);
  const absl::StatusOr<NvrtcLibrary::Result> made =
      library_.Compile("#include \"tensord/cuda.cuh\"\n", kernels::CudaPrelude(), options,
                       NvrtcLibrary::Output::kPtx);
  if (!made.ok() || !made->ok || access(path.c_str(), R_OK) != 0) return "";
  absl::MutexLock lock(&mutex_);
  folder_.emplace(*std::move(folder));
  path_ = path;
  return path_;
}

}  // namespace tensord::jit
