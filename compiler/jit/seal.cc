// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/seal.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "base/sha256.h"
#include "compiler/jit/folder.h"

namespace tensord::jit {
namespace {

namespace fs = std::filesystem;

constexpr char kSealName[] = "seal";

// The files of the folder but the seal, by their paths in it.
std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;  // a folder that is not there has no files
  for (fs::recursive_directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    std::string path = it->path().lexically_relative(folder).string();
    if (!it->is_directory(error) && path != kSealName) files.push_back(std::move(path));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Two digests, so that nobody without the key can go on from one.
absl::StatusOr<std::string> SealOf(const std::string& folder, const std::string& key) {
  Sha256Fields files;
  for (const std::string& path : FilesOf(folder)) {
    TENSORD_ASSIGN_OR_RETURN(const std::string contents, ReadFile(absl::StrCat(folder, "/", path)));
    files.Add(path).Add(Sha256(contents));
  }
  return ToHex(Sha256Fields().Add(key).Add(files.Finish()).Finish());
}

// Tells one state of the folder from another without reading a file.
std::string StateOf(const std::string& folder) {
  std::string state;
  std::vector<std::string> files = FilesOf(folder);
  files.push_back(kSealName);
  for (const std::string& path : files) {
    struct stat info;
    if (stat(absl::StrCat(folder, "/", path).c_str(), &info) != 0) return "";
    absl::StrAppend(&state, path, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec,
                    ".", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec,
                    "\n");
  }
  return state;
}

// States that were found sound, by folder and key.
struct Verdicts {
  absl::Mutex mutex;
  std::map<std::pair<std::string, std::string>, std::string> sound ABSL_GUARDED_BY(mutex);
};
Verdicts& TheVerdicts() {
  static Verdicts& verdicts = *new Verdicts;
  return verdicts;
}

}  // namespace

absl::Status Seal(const std::string& folder, const std::string& key) {
  TENSORD_ASSIGN_OR_RETURN(const std::string seal, SealOf(folder, key));
  return WriteFile(absl::StrCat(folder, "/", kSealName), seal);
}

bool IsSealed(const std::string& folder, const std::string& key) {
  const std::string state = StateOf(folder);
  if (state.empty()) return false;
  Verdicts& verdicts = TheVerdicts();
  {
    absl::MutexLock lock(&verdicts.mutex);
    const auto known = verdicts.sound.find({folder, key});
    if (known != verdicts.sound.end() && known->second == state) return true;
  }
  const auto written = ReadFile(absl::StrCat(folder, "/", kSealName));
  const auto seal = SealOf(folder, key);
  if (!written.ok() || !seal.ok() || *written != *seal) return false;
  absl::MutexLock lock(&verdicts.mutex);
  verdicts.sound[{folder, key}] = state;
  return true;
}

}  // namespace tensord::jit
