// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/prefetching_sweep.h"

#include <algorithm>

#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/threads.h"

namespace tensord::compiler {
namespace {

// Threads of a multiprocessor, and of a block.
constexpr int kThreadsOfMultiprocessor = 512;
constexpr int kBlock = 256;
constexpr int kWidestGroup = 512;
// Where nothing of a row stays in registers but the sums, shorter rows belong to a warp.
constexpr int kLeastVectors = 1024;
// Registers of a thread in all arrays. A warp is the group where it can be,
// because it needs no barrier: of fewer threads while these need many, in small blocks, so that one
// combines its sums while another still sweeps; of more threads where each has but one vector.
constexpr int kMostRegistersOfWarp = 96;
constexpr int kManyRegistersOfWarp = 72;
constexpr int kThreadsOfMany = 256;
constexpr int kBlockOfMany = 128;
constexpr int kFewRegistersOfWarp = 16;
constexpr int kThreadsOfFew = 1536;
// In a larger group: with several sums of columns, and with one. Where several leave each thread
// few of them, there are more threads.
constexpr int kMostRegistersOfGroup = 80;
constexpr int kMostRegistersOfOneSum = 40;
constexpr int kFewRegistersOfGroup = 40;
constexpr int kMoreThreads = 768;

// Registers that one of the nest's totals takes.
int64_t RegistersOfElement(const Nest& nest) {
  int64_t bytes = 4;
  for (const NestMember& m : nest.members) {
    for (const Reduction& r : m.loops.reductions) {
      bytes = std::max<int64_t>(
          bytes, ItemSize(ComputeType(m.loops.block.insts[static_cast<size_t>(r.value)].dtype)));
    }
  }
  return bytes / 4;
}

// Groups of whole warps do their rows side by side: only plain states are combined, and nothing
// of the whole block.
bool MayHaveParts(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return std::all_of(m.loops.reductions.begin(), m.loops.reductions.end(),
                       [&](const Reduction& r) {
                         if (m.reduces_outer) return IsColumnSum(m);
                         return r.kind == ReduceKind::kSum || r.kind == ReduceKind::kMax ||
                                r.kind == ReduceKind::kMin || r.kind == ReduceKind::kWelford;
                       });
  });
}

// Whole warps whose threads have `most` vectors at most, with the fewest places that have none;
// among equals the smallest group. `most` is at least 1.
int GroupFor(int64_t most, int64_t vectors) {
  int best = kWidestGroup;
  int64_t least = -1;
  for (int64_t chunks = most; chunks >= 1; --chunks) {
    const int group = RoundUpToWarp(sym::CeilDiv(vectors, chunks));
    if (group > kWidestGroup) break;
    const int64_t empty = sym::CeilDiv(vectors, group) * group - vectors;
    if (least >= 0 && empty >= least) continue;
    least = empty;
    best = group;
  }
  return best;
}

}  // namespace

std::optional<PrefetchingSweep> PlanPrefetchingSweep(const Nest& nest, int64_t rows,
                                                     int64_t vectors, int64_t of_vector,
                                                     int multiprocessors) {
  const int sums = ColumnArrays(nest);
  if (sums == 0) return std::nullopt;
  const int64_t registers_of_vector = of_vector * RegistersOfElement(nest);
  const auto registers_with = [&](int64_t group) {
    return sym::CeilDiv(vectors, group) * registers_of_vector;
  };
  int threads = kThreadsOfMultiprocessor, block = kWidestGroup, group = kWidestGroup;
  if (RegisterResidentArrays(nest) == sums) {
    if (vectors < kLeastVectors || registers_with(group) > kMostRegistersOfGroup)
      return std::nullopt;
  } else if (!MayHaveParts(nest)) {
    return std::nullopt;
  } else if (const int64_t registers = registers_with(kWarp); registers <= kMostRegistersOfWarp) {
    const bool many = registers > kManyRegistersOfWarp, few = registers <= kFewRegistersOfWarp;
    threads = many ? kThreadsOfMany : few ? kThreadsOfFew : kThreadsOfMultiprocessor;
    block = many ? kBlockOfMany : kBlock;
    group = PartOfWarp(vectors);
  } else {
    const int64_t most =
        (sums > 1 ? kMostRegistersOfGroup : kMostRegistersOfOneSum) / registers_of_vector;
    if (most == 0) return std::nullopt;
    group = GroupFor(most, vectors);
    block = std::max(kBlock, group) / group * group;
    if (registers_with(group) > kMostRegistersOfGroup) return std::nullopt;
    if (sums > 1 && registers_with(group) <= kFewRegistersOfGroup) threads = kMoreThreads;
  }
  const int resident = std::max(1, threads / block);
  // Else no row is another's next.
  if (rows <= int64_t{multiprocessors} * resident * (block / group)) return std::nullopt;
  return PrefetchingSweep{.threads = block, .group = group, .resident = resident};
}

}  // namespace tensord::compiler
