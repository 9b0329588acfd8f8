// SPDX-License-Identifier: Apache-2.0
// The largest of any range of numbers, found in constant time (a sparse table).
#ifndef TENSORD_COMPILER_MEMORY_RANGE_MAXIMUM_H_
#define TENSORD_COMPILER_MEMORY_RANGE_MAXIMUM_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tensord::compiler {

class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<int64_t> numbers) {
    largest_.push_back(std::move(numbers));
    for (size_t span = 1; 2 * span <= largest_[0].size(); span *= 2) {
      const std::vector<int64_t>& half = largest_.back();
      std::vector<int64_t> whole(half.size() - span);
      for (size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + span]);
      largest_.push_back(std::move(whole));
    }
  }

  // Requires: begin < end.
  int64_t Largest(size_t begin, size_t end) const {
    const int level = std::bit_width(end - begin) - 1;
    return std::max(largest_[level][begin], largest_[level][end - (size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<int64_t>> largest_;  // [k][i]: of the 2^k numbers from i on
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_RANGE_MAXIMUM_H_
