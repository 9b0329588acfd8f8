// SPDX-License-Identifier: Apache-2.0
// Finds the lives that meet another, in time for those that do, not for all.
#ifndef TENSORD_COMPILER_MEMORY_LIFE_INDEX_H_
#define TENSORD_COMPILER_MEMORY_LIFE_INDEX_H_

#include <map>
#include <utility>
#include <vector>

#include "compiler/memory/lifetimes.h"

namespace tensord::compiler {

// Lives with numbers. One that meets another either begins during it, or is there when it begins:
// for these, each life is kept as the fewest spans of 2^k steps that begin at multiples of 2^k.
class LifeIndex {
 public:
  void Add(const Lifetime& life, int number) {
    begins_[life.first].push_back(number);
    int level = 0;
    for (int first = life.first, end = life.last + 1; first < end; ++level) {
      if (first & 1) spans_[{level, first++}].push_back(number);
      if (end & 1) spans_[{level, --end}].push_back(number);
      first >>= 1;
      end >>= 1;
    }
    levels_ = levels_ < level ? level : levels_;
  }

  // Calls visit(number) once for each life that meets this one, in no order.
  template <typename Visit>
  void ForEachMeeting(const Lifetime& life, const Visit& visit) const {
    for (int level = 0; level < levels_; ++level) {
      const auto span = spans_.find({level, life.first >> level});
      if (span == spans_.end()) continue;
      for (int number : span->second) visit(number);
    }
    for (auto it = begins_.upper_bound(life.first); it != begins_.end() && it->first <= life.last;
         ++it) {
      for (int number : it->second) visit(number);
    }
  }

 private:
  std::map<int, std::vector<int>> begins_;                 // by first step
  std::map<std::pair<int, int>, std::vector<int>> spans_;  // by k and first step / 2^k
  int levels_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_LIFE_INDEX_H_
