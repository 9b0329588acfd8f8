// SPDX-License-Identifier: Apache-2.0
// Memory in which tenants that live at different times share bytes.
#ifndef TENSORD_COMPILER_MEMORY_REGION_H_
#define TENSORD_COMPILER_MEMORY_REGION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/memory/life_index.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/sym/expr.h"

namespace tensord::compiler {

// Tenants of constant sizes, each at the lowest offset that is free during its life.
class Region {
 public:
  // The offset.
  int64_t Add(const Lifetime& life, int64_t bytes);
  // By how much that would lengthen the region.
  int64_t Growth(const Lifetime& life, int64_t bytes) const;
  int64_t end() const { return end_; }
  // From the first step of any tenant to the last.
  const Lifetime& life() const { return life_; }

 private:
  struct Tenancy {
    int64_t begin, end;
  };
  int64_t FindOffset(const Lifetime& life, int64_t bytes) const;

  std::vector<Tenancy> tenancies_;
  LifeIndex lives_;  // of tenancies
  int64_t end_ = 0;
  Lifetime life_;
};

// Tenants of symbolic sizes, in slots that lie one behind the other.
class Slots {
 public:
  explicit Slots(Expr begin) : end_(std::move(begin)) {}
  // The offset: in a slot of this very size if one is free, else in a new one.
  Expr Add(const Lifetime& life, const Expr& size);
  // In a free slot that is as large or larger whatever the symbols are; nothing if there is none.
  std::optional<Expr> AddInside(const Lifetime& life, const Expr& size);
  const Expr& end() const { return end_; }

 private:
  struct Slot {
    Expr size, offset;
    std::map<int, int> tenants;  // the first step of each -> its last; they do not meet
    bool IsFree(const Lifetime& life) const;
  };
  std::vector<Slot> slots_;
  std::map<Expr, std::vector<size_t>> of_size_;  // slots
  Expr end_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_REGION_H_
