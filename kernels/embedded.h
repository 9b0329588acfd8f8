// SPDX-License-Identifier: Apache-2.0
// The preludes that generated kernels include, carried inside the binary: a JIT needs no source
// tree.
#ifndef TENSORD_KERNELS_EMBEDDED_H_
#define TENSORD_KERNELS_EMBEDDED_H_

#include <span>
#include <string_view>

namespace tensord::kernels {

struct EmbeddedFile {
  std::string_view path;  // below an include folder: "tensord/cpu/vec.h"
  std::string_view contents;
};

// The CPU prelude: "tensord/cpu.h", which kernels include first, and all that it includes.
std::span<const EmbeddedFile> CpuPrelude();

// SHA-256 of the CPU prelude's paths and contents, in hex.
std::string_view CpuPreludeDigest();

// The CUDA prelude: "tensord/cuda.cuh", which kernels include first, and all that it includes. The
// files name each other by these paths, for NVRTC knows headers by nothing else.
std::span<const EmbeddedFile> CudaPrelude();
std::string_view CudaPreludeDigest();

}  // namespace tensord::kernels

#endif  // TENSORD_KERNELS_EMBEDDED_H_
