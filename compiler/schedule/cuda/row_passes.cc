// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/row_passes.h"

#include <algorithm>
#include <tuple>

#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/threads.h"

namespace tensord::compiler {
namespace {

// Vectors of a row that a thread should have under way.
constexpr int kVectorsOfThread = 4;
// Rows of fewer vectors belong to a warp or a part of one.
constexpr int kMostVectorsOfWarp = 128;
constexpr int kThreadsOfWarps = 128;
constexpr int kLeastThreads = 64;
// Shared memory that every device has without asking for more.
constexpr int64_t kPlainShared = 48 << 10;
// Left to the kernel's own static arrays.
constexpr int64_t kStaticShared = 4 << 10;

// The row is too long for registers: the values for later passes lie in shared memory where they
// find room.
bool FitsSharedMemory(const NestContext& context, int64_t bytes) {
  const int64_t room =
      std::max<int64_t>(kPlainShared, context.target.shared_bytes_per_block()) - kStaticShared;
  return bytes <= room && sym::Product(context.nest.inner).AsConstant().has_value();
}

}  // namespace

std::pair<int, int> ChooseRowThreads(const NestContext& context, int64_t vectors) {
  const int64_t rows = std::max<int64_t>(1, sym::Hint(context.rows));
  const int fixed = context.fixed_threads, multiprocessors = context.Multiprocessors();
  if (vectors <= kMostVectorsOfWarp &&
      (fixed > 0 || rows >= 4 * multiprocessors || vectors <= kWarp)) {
    const int group = PartOfWarp(vectors);
    int threads = context.Threads(kThreadsOfWarps);
    // Few rows: small blocks, so that every multiprocessor has one.
    while (fixed == 0 && threads > kWarp &&
           rows < int64_t{multiprocessors} * (threads / group) * 2) {
      threads /= 2;
    }
    return {threads, group};
  }
  const int64_t wanted = RoundUpToWarp(sym::CeilDiv(vectors, kVectorsOfThread));
  const int threads =
      context.Threads(static_cast<int>(std::clamp<int64_t>(wanted, kLeastThreads, kMostThreads)));
  return {threads, threads};
}

RowPasses PlanRowPasses(const NestContext& context, const RowVectors& vectors) {
  RowPasses passes{.group = {.access = vectors.access}};
  std::tie(passes.threads, passes.group.threads) = ChooseRowThreads(context, vectors.Hint());
  passes.group.register_vectors =
      VectorsInRegisters(context, vectors, passes.group.threads, passes.threads);
  if (passes.group.register_vectors > 0) {
    passes.blocks = sym::CeilDiv(context.rows, Expr(passes.threads / passes.group.threads));
    return passes;
  }
  const int64_t bytes = BytesOfRowValues(context.program, context.nest);
  passes.threads = passes.group.threads = context.Threads(kMostThreads);
  passes.loops = bytes > 0 && !FitsSharedMemory(context, bytes);
  passes.blocks =
      passes.loops ? sym::Min(context.rows, Expr(2 * context.Multiprocessors())) : context.rows;
  return passes;
}

}  // namespace tensord::compiler
