// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/region.h"

#include <algorithm>
#include <iterator>

namespace tensord::compiler {
namespace {

// The first minimum or quotient of a term that is added.
struct Found {
  Expr rest;      // without the term
  Expr cofactor;  // the term's other factors
  sym::AtomPtr atom;
};

std::optional<Found> FindBoundable(const Expr& e) {
  for (const sym::Term& term : e.terms()) {
    if (term.coefficient < 0) continue;
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const sym::AtomPtr& atom = term.atoms[i];
      if (atom->kind != sym::AtomKind::kMin && atom->kind != sym::AtomKind::kFloorDiv) continue;
      sym::Term others = term;
      others.atoms.erase(others.atoms.begin() + static_cast<std::ptrdiff_t>(i));
      return Found{e - Expr::FromTerms({term}), Expr::FromTerms({others}), atom};
    }
  }
  return std::nullopt;
}

// Whether `size` is at most `room` whatever the symbols are, as far as that can be seen. Sizes of
// scratch are min(most, ceil(rows / group)) times something: what either operand is enough for, and
// rows / group is at most.
bool Fits(const Expr& size, const Expr& room) {
  const auto found = FindBoundable(size);
  if (!found) return sym::ProvablyNonNegative(room - size);
  if (!sym::ProvablyNonNegative(found->cofactor)) return false;
  const std::vector<Expr>& operands = found->atom->args;
  if (found->atom->kind == sym::AtomKind::kMin) {
    return std::any_of(operands.begin(), operands.end(), [&](const Expr& operand) {
      return Fits(found->rest + found->cofactor * operand, room);
    });
  }
  const auto divisor = operands[1].AsConstant();
  if (!divisor || *divisor <= 0 || !sym::ProvablyNonNegative(operands[0])) return false;
  const auto factor = sym::ExactDiv(found->cofactor, operands[1]);
  return factor && Fits(found->rest + *factor * operands[0], room);
}

}  // namespace

int64_t Region::FindOffset(const Lifetime& life, int64_t bytes) const {
  std::vector<std::pair<int64_t, int64_t>> busy;  // meanwhile, by offset
  lives_.ForEachMeeting(
      life, [&](int other) { busy.emplace_back(tenancies_[other].begin, tenancies_[other].end); });
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
  lives_.Add(life, static_cast<int>(tenancies_.size()));
  tenancies_.push_back({offset, offset + bytes});
  end_ = std::max(end_, offset + bytes);
  return offset;
}

int64_t Region::Growth(const Lifetime& life, int64_t bytes) const {
  return std::max<int64_t>(0, FindOffset(life, bytes) + bytes - end_);
}

bool Slots::Slot::IsFree(const Lifetime& life) const {
  const auto next = tenants.upper_bound(life.last);  // begins behind it
  return next == tenants.begin() || std::prev(next)->second < life.first;
}

Expr Slots::Add(const Lifetime& life, const Expr& size) {
  std::vector<size_t>& candidates = of_size_[size];
  for (size_t i : candidates) {
    if (!slots_[i].IsFree(life)) continue;
    slots_[i].tenants.emplace(life.first, life.last);
    return slots_[i].offset;
  }
  candidates.push_back(slots_.size());
  slots_.push_back({size, end_, {{life.first, life.last}}});
  end_ += size;
  return slots_.back().offset;
}

std::optional<Expr> Slots::AddInside(const Lifetime& life, const Expr& size) {
  for (Slot& slot : slots_) {
    if (!slot.IsFree(life) || !Fits(size, slot.size)) continue;
    slot.tenants.emplace(life.first, life.last);
    return slot.offset;
  }
  return std::nullopt;
}

}  // namespace tensord::compiler
