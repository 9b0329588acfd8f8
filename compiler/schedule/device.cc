// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/device.h"

#include <algorithm>

namespace tensord::compiler {

DeviceTraits TraitsOf(const v1::Target& target, bool deterministic) {
  DeviceTraits traits;
  if (!target.has_cuda()) return traits;
  traits.parallel_scatter = !deterministic;
  traits.finishes_columns = true;
  traits.few_rows = std::max<int64_t>(4, target.cuda().multiprocessors());
  traits.long_row = 16384;
  // Accumulators for the columns of a row stay in the registers of one block, beside the row.
  traits.most_columns_of_mixed_sweep = 8192;
  // A thread takes about 0.1 us for an element of its column, with a few loads under way, and all
  // threads together are bound by memory only where there are tens of thousands of columns. A row
  // across memory costs a sector for each element, a fraction of that, and a chain of exchanges.
  traits.least_columns_of_scan = 2048;
  traits.least_scan_across = 128;
  traits.least_columns_of_long_scan = 256;
  traits.long_scan = 2048;
  traits.reduces_over_scanned_rows = false;
  traits.large_nest_bytes = 32 << 20;
  // Of the 4096 bytes that every driver takes; the rest is for scratch and symbolic sizes.
  traits.most_words = 480;
  traits.equal_nests_share = true;
  traits.least_bytes_early = 1 << 20;
  traits.most_bytes_early = 32 << 20;
  return traits;
}

}  // namespace tensord::compiler
