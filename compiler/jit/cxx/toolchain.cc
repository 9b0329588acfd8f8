// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/cxx/toolchain.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/synchronization/mutex.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <tuple>

#include "base/process.h"
#include "compiler/jit/cxx/host_program.h"
#include "kernels/embedded.h"

namespace tensord::jit {
namespace {

// The prelude has vector types in its interfaces and uses __builtin_shufflevector.
constexpr int kLeastGcc = 12;

// The prelude counts on -fwrapv, -fno-strict-aliasing and -ffp-contract=fast. Never -ffast-math:
// NaN, infinity, signed zeros and the order of additions mean what they mean in eager.
constexpr const char* kFlags[] = {"-std=c++20",
                                  "-O3",
                                  "-fPIC",
                                  "-fvisibility=hidden",
                                  "-fno-math-errno",
                                  "-fno-trapping-math",
                                  "-ffp-contract=fast",
                                  "-fwrapv",
                                  "-fno-strict-aliasing",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fno-semantic-interposition",
                                  "-fno-plt",
                                  "-fno-stack-protector",
                                  "-fno-ident",
                                  "-frandom-seed=tensord",
                                  "-U_FORTIFY_SOURCE",
                                  "-fno-diagnostics-color",
                                  "-w"};

struct IsaFlags {
  v1::Isa isa;
  const char* name;
  const char* flags;  // separated by spaces
};
constexpr IsaFlags kIsaFlags[] = {
    {v1::ISA_SCALAR, "scalar", "-march=x86-64 -mtune=generic"},
    {v1::ISA_AVX2, "avx2",
     "-march=x86-64 -mtune=haswell -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt"},
    {v1::ISA_AVX512, "avx512",
     "-march=x86-64 -mtune=icelake-server -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd "
     "-mprefer-vector-width=512 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt"},
};

absl::StatusOr<const IsaFlags*> FlagsOf(const v1::Target& target) {
  for (const IsaFlags& entry : kIsaFlags)
    if (entry.isa == target.cpu().isa()) return &entry;
  return absl::InvalidArgumentError(
      absl::StrCat("target.cpu.isa: unknown instruction set ", int(target.cpu().isa())));
}

absl::Status Missing(const std::string& cxx) {
  return absl::FailedPreconditionError(
      absl::StrCat("no C++ compiler '", cxx, "': install g++ or set TENSORD_CXX"));
}

// "c++ (Debian 12.2.0-14) 12.2.0", "g++ (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)": the number after
// the first closing parenthesis.
int MajorVersion(const std::string& version) {
  const size_t at = version.find(") ");
  int major = 0;
  if (at == std::string::npos || absl::StrContains(version, "clang")) return 0;
  const std::string number = version.substr(at + 2);
  return absl::SimpleAtoi(number.substr(0, number.find('.')), &major) ? major : 0;
}

absl::Status CheckVersion(const std::string& path, const std::string& version) {
  if (MajorVersion(version) >= kLeastGcc) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the C++ compiler ", path, " is '", version, "': CPU kernels need GCC ",
                   kLeastGcc, " or later; install one and set TENSORD_CXX to it"));
}

// Compiler versions by path, modification time and size: asking one takes a few milliseconds, and
// every key needs the answer.
class VersionCache {
 public:
  absl::StatusOr<std::string> Get(const std::string& path) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return Missing(path);
    const Key key{path, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size};
    {
      absl::MutexLock lock(&mutex_);
      if (auto found = versions_.find(key); found != versions_.end()) return found->second;
    }
    const absl::StatusOr<ProcessResult> result = RunHostProgram({path, "--version"}, "/");
    if (absl::IsNotFound(result.status())) return Missing(path);
    TENSORD_RETURN_IF_ERROR(result.status());
    if (result->exit_code != 0)
      return absl::FailedPreconditionError(
          absl::StrCat(path, " --version fails: ", absl::StripAsciiWhitespace(result->output)));
    const std::string version(
        absl::StripAsciiWhitespace(result->output.substr(0, result->output.find('\n'))));
    absl::MutexLock lock(&mutex_);
    versions_.emplace(key, version);
    return version;
  }

 private:
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>;
  absl::Mutex mutex_;
  std::map<Key, std::string> versions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<std::string> LinkArguments(const std::string& source, const std::string& output) {
  // No start files and no libstdc++: a kernel has no constructors. Linking is a third of the time.
  return {"-shared", "-s",  "-nostdlib", "-Wl,--build-id=none", "-o", output, source,
          "-lm",     "-lc", "-lgcc"};
}

absl::StatusOr<CxxToolchain> FindCxxToolchain(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const IsaFlags* isa, FlagsOf(target));
  CxxToolchain result;
  result.path = FindProgram(config.cxx);
  if (result.path.empty()) return Missing(config.cxx);
  static VersionCache& cache = *new VersionCache;
  TENSORD_ASSIGN_OR_RETURN(result.version, cache.Get(result.path));
  TENSORD_RETURN_IF_ERROR(CheckVersion(result.path, result.version));
  result.flags.assign(std::begin(kFlags), std::end(kFlags));
  for (absl::string_view flag : absl::StrSplit(isa->flags, ' ')) result.flags.emplace_back(flag);
  result.flags.insert(result.flags.end(), config.extra_flags.begin(), config.extra_flags.end());
  // Without the compiler's path and name: hosts that have the same compiler share kernels.
  const std::string version = result.version.substr(result.version.find(' ') + 1);
  result.id = absl::StrCat("cxx ", version, " | ", absl::StrJoin(result.flags, " "), " | ",
                           absl::StrJoin(LinkArguments("", ""), " "), " | prelude ",
                           std::string(kernels::CpuPreludeDigest()));
  return result;
}

}  // namespace tensord::jit
