#include "compiler/memory/region.h"

#include <algorithm>

namespace tensord::compiler {

int64_t Region::FindOffset(const Lifetime& life, int64_t bytes) const {
  std::vector<std::pair<int64_t, int64_t>> busy;  // meanwhile, by offset
  for (const Tenancy& other : tenancies_) {
    if (other.life.Meets(life)) busy.emplace_back(other.begin, other.end);
  }
  std::sort(busy.begin(), busy.end());
  int64_t offset = 0;
  for (const auto& [begin, end] : busy) {
    if (offset + bytes <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

int64_t Region::Add(const Lifetime& life, int64_t bytes) {
  const int64_t offset = FindOffset(life, bytes);
  life_ = tenancies_.empty() ? life : life_.With(life);
  tenancies_.push_back({life, offset, offset + bytes});
  end_ = std::max(end_, offset + bytes);
  return offset;
}

int64_t Region::Growth(const Lifetime& life, int64_t bytes) const {
  return std::max<int64_t>(0, FindOffset(life, bytes) + bytes - end_);
}

bool Slots::Slot::IsFree(const Lifetime& life) const {
  return std::none_of(tenants.begin(), tenants.end(),
                      [&](const Lifetime& other) { return other.Meets(life); });
}

Expr Slots::Add(const Lifetime& life, const Expr& size) {
  for (Slot& slot : slots_) {
    if (!(slot.size == size) || !slot.IsFree(life)) continue;
    slot.tenants.push_back(life);
    return slot.offset;
  }
  slots_.push_back({size, end_, {life}});
  end_ += size;
  return slots_.back().offset;
}

std::optional<Expr> Slots::AddInside(const Lifetime& life, const Expr& size) {
  for (Slot& slot : slots_) {
    if (!slot.IsFree(life) || !sym::ProvablyNonNegative(slot.size - size)) continue;
    slot.tenants.push_back(life);
    return slot.offset;
  }
  return std::nullopt;
}

}  // namespace tensord::compiler
