// SPDX-License-Identifier: Apache-2.0
// What scheduling needs to know of a target: sizes at which a choice changes, not its instructions.
#ifndef TENSORD_COMPILER_SCHEDULE_DEVICE_H_
#define TENSORD_COMPILER_SCHEDULE_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Threads that a block of a CUDA launch may have.
inline constexpr int kMostThreads = 1024;
// Words of a launch's arguments beside its buffers: the size of a nest and where its blocks end.
inline constexpr size_t kWordsOfSizes = 2;

struct DeviceTraits {
  // Scatters run in any order, adding atomically, and may share a nest; otherwise each runs alone,
  // in the order of its loops.
  bool parallel_scatter = false;
  // A column reduction sweeps over rows when there are so many; fewer keep a machine idle.
  int64_t least_rows_for_sweep = 64;
  // Welford's states of columns sweep too, and what follows from sums of columns runs where they
  // are finished.
  bool finishes_columns = false;
  // A full reduction of at most this many elements runs as one row, so that what follows it can
  // share its nest.
  int64_t most_elements_of_one_row = 16384;
  // Fewer rows than this, each longer than that, leave most of the machine idle in row-wise work
  // that could run flat.
  int64_t few_rows = 4;
  int64_t long_row = 65536;
  // Rows longer than this are not reduced both along and across in one nest.
  int64_t most_columns_of_mixed_sweep = INT64_MAX;
  // Nests of one launch, and the bytes beyond which a nest fills the machine alone; its kernel is
  // more likely to be found again in another program when it stays alone.
  size_t most_nests = 24;
  int64_t large_nest_bytes = 4 << 20;
  // Words that a launch passes: one for each buffer of a nest and a few for its sizes.
  size_t most_words = SIZE_MAX;
  // Fewer columns than this, of at least so many elements each, are scanned as rows that lie across
  // memory, several threads for each: one for each would leave most of the machine idle.
  int64_t least_columns_of_scan = 0;
  int64_t least_scan_across = 0;
  // The same of columns that are so long that each is scanned in parts, unless products are.
  int64_t least_columns_of_long_scan = 0;
  int64_t long_scan = INT64_MAX;
  // Whether what is scanned along rows may be reduced over them in the same nest.
  bool reduces_over_scanned_rows = true;
  // Structurally equal nests share a function: as many of them as there are words for share a
  // launch. Large ones share one too, and so do those that at least compute the same, because the
  // machine runs empty at the end of each launch.
  bool equal_nests_share = false;
  // What nests may leave in memory at a time that run earlier than they must, to share a launch:
  // otherwise the weights of a whole model would be converted before the first product. The first
  // where memory is fullest, the second where that much is free beside it.
  int64_t least_bytes_early = INT64_MAX;
  int64_t most_bytes_early = INT64_MAX;
  // What may be in memory early although a later launch would do.
  int64_t small_result_bytes = 16 << 10;
};

DeviceTraits TraitsOf(const v1::Target& target, bool deterministic);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_DEVICE_H_
