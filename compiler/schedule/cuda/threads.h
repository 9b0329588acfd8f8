// SPDX-License-Identifier: Apache-2.0
// Threads by the warp, and sizes of blocks and rows that several kinds of schedules share.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_THREADS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_THREADS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compiler/schedule/device.h"
#include "compiler/sym/expr.h"

namespace tensord::compiler {

inline constexpr int kWarp = 32;
// Threads of a block; at most kMostThreads.
inline constexpr int kUsualThreads = 256;
// Of the second launch, for which the prelude has shared memory (tk::kFinishSharedBytes).
inline constexpr int kFinishThreads = 256;
inline constexpr int kLeastThreadsOfRow = 128;  // where the block has one row, or sweeps over rows
// A part of a split row has at least this many vectors for each thread.
inline constexpr int kLeastVectorsOfPart = 4;
// Elements of a row that is worth other vectors than those that every access keeps aligned.
inline constexpr int64_t kLeastLongRow = 1024;

inline int RoundUpToWarp(int64_t threads) {
  return static_cast<int>(sym::CeilDiv(threads, kWarp)) * kWarp;
}

// The group that a row of so many vectors has where that is a warp or a part of one.
inline int PartOfWarp(int64_t vectors) {
  return static_cast<int>(std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_THREADS_H_
