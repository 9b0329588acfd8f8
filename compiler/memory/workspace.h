// SPDX-License-Identifier: Apache-2.0
// What is there during the whole call, and the blocks of segments and of single buffers; of
// constant sizes.
#ifndef TENSORD_COMPILER_MEMORY_WORKSPACE_H_
#define TENSORD_COMPILER_MEMORY_WORKSPACE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/memory/plan_memory.h"
#include "compiler/memory/range_maximum.h"
#include "compiler/memory/region.h"

namespace tensord::compiler {

class Workspace {
 public:
  // `others`: the bytes of all memory but this, by step. `alone`: buffers with a block of their
  // own.
  Workspace(std::vector<int> cuts, const std::vector<BufferId>& alone, std::vector<int64_t> others);

  Place Add(BufferId id, const Lifetime& life, int64_t bytes);
  // In the common part or in the segment's block, whichever raises the call's peak less. Nowhere if
  // it rises, unless it must.
  std::optional<Place> AddScratch(int step, int64_t bytes, bool must);

  int64_t common_bytes() const { return common_.end(); }
  // By segment; behind them those of single buffers.
  const std::vector<Region>& blocks() const { return blocks_; }

  // The most that is taken at a time, but for the common part.
  int64_t Peak() const;
  // By step: how much less than that is taken.
  std::vector<int64_t> Spare() const;

 private:
  static constexpr int kCommon = -1;

  struct Cost {
    int64_t peak, bytes;  // by how much they grow
    auto operator<=>(const Cost&) const = default;
  };

  int HomeOf(const Lifetime& life) const;
  Place AddTo(int home, const Lifetime& life, int64_t bytes);
  Cost CostOf(int home, const Lifetime& life, int64_t bytes) const;
  // One that is there anyway costs nothing.
  bool PaysBlock(int segment, const Cost& saved) const;
  int64_t MostDuring(const Lifetime& life, int64_t block) const;
  const RangeMaximum& MostOthers() const;

  std::vector<int> cuts_;
  std::vector<int64_t> others_;                      // with the blocks of single buffers
  mutable std::optional<RangeMaximum> most_others_;  // of those, once they are asked for
  std::map<BufferId, int> alone_;                    // which block
  Region common_;
  std::vector<Region> blocks_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_WORKSPACE_H_
