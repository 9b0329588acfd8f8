// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/workspace.h"

#include <algorithm>
#include <utility>

#include "compiler/memory/segments.h"

namespace tensord::compiler {

Workspace::Workspace(std::vector<int> cuts, const std::vector<BufferId>& alone,
                     std::vector<int64_t> others)
    : cuts_(std::move(cuts)), others_(std::move(others)), blocks_(cuts_.size() + 1) {
  for (BufferId id : alone) {
    alone_[id] = static_cast<int>(blocks_.size());
    blocks_.emplace_back();
  }
}

Place Workspace::Add(BufferId id, const Lifetime& life, int64_t bytes) {
  const auto alone = alone_.find(id);
  if (alone == alone_.end()) return AddTo(HomeOf(life), life, bytes);
  AddDuring(life, bytes, &others_);
  most_others_.reset();
  return AddTo(alone->second, life, bytes);
}

std::optional<Place> Workspace::AddScratch(int step, int64_t bytes, bool must) {
  const Lifetime life{step, step};
  int home = kCommon;
  Cost cost = CostOf(kCommon, life, bytes);
  const int segment = HomeOf(life);
  if (segment != kCommon && PaysBlock(segment, cost)) {
    const Cost apart = CostOf(segment, life, bytes);
    if (apart < cost) {
      cost = apart;
      home = segment;
    }
  }
  if (cost.peak > 0 && !must) return std::nullopt;
  return AddTo(home, life, bytes);
}

int64_t Workspace::Peak() const {
  int64_t peak = others_.empty() ? 0 : MostOthers().Largest(0, others_.size());
  for (size_t i = 0; i <= cuts_.size(); ++i) {
    const Region& block = blocks_[i];
    if (block.end() > 0) peak = std::max(peak, MostDuring(block.life(), block.end()));
  }
  return peak;
}

std::vector<int64_t> Workspace::Spare() const {
  std::vector<int64_t> taken = others_;
  for (size_t i = 0; i <= cuts_.size(); ++i) {
    if (blocks_[i].end() > 0) AddDuring(blocks_[i].life(), blocks_[i].end(), &taken);
  }
  const int64_t peak = Peak();
  for (int64_t& bytes : taken) bytes = peak - bytes;
  return taken;
}

int Workspace::HomeOf(const Lifetime& life) const {
  return cuts_.empty() ? kCommon : SegmentOf(life, cuts_);
}

Place Workspace::AddTo(int home, const Lifetime& life, int64_t bytes) {
  Region& region = home == kCommon ? common_ : blocks_[home];
  return {Place::kWorkspace, Expr(region.Add(life, bytes)), home};
}

Workspace::Cost Workspace::CostOf(int home, const Lifetime& life, int64_t bytes) const {
  if (home == kCommon) {
    const int64_t growth = common_.Growth(life, bytes);
    return {growth, growth};
  }
  const Region& block = blocks_[home];
  const int64_t growth = block.Growth(life, bytes);
  const Lifetime there = block.end() == 0 ? life : block.life().With(life);
  return {std::max<int64_t>(0, MostDuring(there, block.end() + growth) - Peak()), growth};
}

bool Workspace::PaysBlock(int segment, const Cost& saved) const {
  return saved.bytes >= (blocks_[segment].end() > 0 ? 1 : SegmentCosts().least_bytes);
}

int64_t Workspace::MostDuring(const Lifetime& life, int64_t block) const {
  return block + MostOthers().Largest(life.first, life.last + 1);
}

const RangeMaximum& Workspace::MostOthers() const {
  if (!most_others_) most_others_.emplace(others_);
  return *most_others_;
}

}  // namespace tensord::compiler
