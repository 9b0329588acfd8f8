// Threads by the warp.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_THREADS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_THREADS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compiler/sym/expr.h"

namespace tensord::compiler {

inline constexpr int kWarp = 32;

inline int RoundUpToWarp(int64_t threads) {
  return static_cast<int>(sym::CeilDiv(threads, kWarp)) * kWarp;
}

// The group that a row of so many vectors has where that is a warp or a part of one.
inline int PartOfWarp(int64_t vectors) {
  return static_cast<int>(std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_THREADS_H_
