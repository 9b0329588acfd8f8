// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/nvrtc/find.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace tensord::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
// Of a toolkit's root; the root itself may be the folder of libraries, as in Python environments.
constexpr const char* kFolders[] = {"", "/lib64", "/lib", "/targets/x86_64-linux/lib"};

std::vector<std::string> Glob(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

void AddFolder(const std::string& root, std::vector<std::string>& candidates) {
  for (const char* folder : kFolders) {
    for (const char* name : kNames) {
      std::string path = absl::StrCat(root, folder, "/", name);
      if (access(path.c_str(), R_OK) == 0) candidates.push_back(std::move(path));
    }
  }
}

}  // namespace

std::vector<std::string> NvrtcCandidates(const std::string& configured) {
  std::vector<std::string> candidates;
  if (!configured.empty()) {
    std::error_code error;
    if (fs::is_directory(configured, error)) {
      AddFolder(configured, candidates);
    } else if (fs::exists(configured, error)) {
      candidates.push_back(
          fs::absolute(configured));  // with a slash: not for the loader to look up
    }
    return candidates;
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = getenv(variable); root && *root) AddFolder(root, candidates);
  std::vector<std::string> roots = Glob("/usr/local/cuda*");
  std::sort(roots.rbegin(), roots.rend());  // cuda-13.1, cuda-12.8, ..., cuda
  for (const std::string& root : roots) AddFolder(root, candidates);
  candidates.insert(candidates.end(), std::begin(kNames), std::end(kNames));
  return candidates;
}

std::string NvrtcBuiltins(const std::string& library, int major, int minor) {
  // The library's own folder, then that of the file that it is a link to.
  std::error_code error;
  for (const fs::path& folder :
       {fs::path(library).parent_path(), fs::canonical(library, error).parent_path()}) {
    const std::string stem =
        absl::StrCat(folder.string(), "/libnvrtc-builtins.so.", major, ".", minor);
    for (const std::string& path : Glob(stem + "*")) return path;
  }
  return "";
}

}  // namespace tensord::jit
