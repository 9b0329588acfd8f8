// SPDX-License-Identifier: Apache-2.0
// NVRTC, opened at run time and never linked.
#ifndef TENSORD_COMPILER_JIT_NVRTC_LIBRARY_H_
#define TENSORD_COMPILER_JIT_NVRTC_LIBRARY_H_

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/embedded.h"

namespace tensord::jit {

struct NvrtcVersion {
  int major = 0, minor = 0;
  auto operator<=>(const NvrtcVersion&) const = default;
};
inline constexpr NvrtcVersion kLeastNvrtc = {12, 4};

struct NvrtcApi;  // the functions

class NvrtcLibrary {
 public:
  // The first usable library of NvrtcCandidates(configured). Opened once per process and never
  // closed. FailedPrecondition: there is none, or only older or broken ones, with what to do.
  static absl::StatusOr<const NvrtcLibrary*> Find(const std::string& configured);

  const std::string& path() const { return path_; }
  const NvrtcVersion& version() const { return version_; }
  // Ascending: 75, 80, 86, ...
  const std::vector<int>& architectures() const { return architectures_; }

  struct Result {
    bool ok = false;
    std::string error;   // "NVRTC_ERROR_COMPILATION"
    std::string log;     // errors, and what ptxas says
    std::string binary;  // cubin or PTX
  };
  enum class Output { kCubin, kPtx };
  // Compiles `source`, which finds `headers` by their paths. Thread-safe. FailedPrecondition: the
  // library is broken.
  absl::StatusOr<Result> Compile(const std::string& source,
                                 std::span<const kernels::EmbeddedFile> headers,
                                 const std::vector<std::string>& options, Output output) const;

 private:
  static absl::StatusOr<std::unique_ptr<NvrtcLibrary>> Open(const std::string& candidate);
  NvrtcLibrary() = default;

  std::string path_;
  NvrtcVersion version_;
  std::vector<int> architectures_;
  std::shared_ptr<const NvrtcApi> api_;
};

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_LIBRARY_H_
