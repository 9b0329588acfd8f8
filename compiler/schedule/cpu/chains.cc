// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/chains.h"

#include <algorithm>
#include <cmath>

#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {
namespace {

// Chains of at most `whole` steps are not cut, others into parts of at least `part` of them.
struct Bounds {
  int64_t whole, part;
};
constexpr Bounds kOfOneVector = {64, 16};
// A part costs several additions more where there are several accumulators, or an array of them.
constexpr Bounds kOfCopies = {256, 32};
constexpr Bounds kOfColumns = {256, 64};
constexpr int64_t kLongestPart = 1024;
// Columns whose loop is not of even parts: a loop of unknown length takes half as long again.
constexpr int64_t kWholeOfUneven = 4096;
// Of units: a part costs a pass over all columns.
constexpr int64_t kWholeUnits = 1024, kUnitsOfPart = 256;

// The loops, from the first inner one, along which a chain runs, in steps of so many iterations.
struct Chain {
  int loops;
  int64_t last_step;  // of the last inner loop
  Bounds bounds;
  bool wants_even = false;
};

// The least number of iterations, from `least` on, of which a loop consists exactly.
std::optional<int64_t> EvenPart(const Expr& extent, int64_t least) {
  constexpr int64_t kMost = 4;  // times as many
  for (int64_t size = least; size <= kMost * least; ++size) {
    if (sym::ExactDiv(extent, Expr(size))) return size;
  }
  return std::nullopt;
}

int64_t StepsOf(const Nest& nest, const Chain& chain, int loop) {
  const int64_t step = loop + 1 == static_cast<int>(nest.inner.size()) ? chain.last_step : 1;
  return std::max<int64_t>(1, (sym::Hint(nest.inner[loop]) + step - 1) / step);
}

std::optional<CpuChains::Part> PartOf(const Nest& nest, const Chain& chain) {
  double all = 1;
  for (int q = 0; q < chain.loops; ++q) all *= static_cast<double>(StepsOf(nest, chain, q));
  if (all <= static_cast<double>(chain.bounds.whole)) return std::nullopt;
  const int64_t wanted =
      std::clamp(static_cast<int64_t>(std::sqrt(all)), chain.bounds.part, kLongestPart);
  int64_t inside = 1;
  for (int q = chain.loops - 1;; --q) {
    const int64_t steps = StepsOf(nest, chain, q);
    if (q > 0 && inside * steps < wanted) {
      inside *= steps;
      continue;
    }
    if (q + 1 == static_cast<int>(nest.inner.size())) {
      const int64_t parts = std::max<int64_t>(1, steps * inside / wanted);
      return CpuChains::Part{.loop = q,
                             .iterations = (steps + parts - 1) / parts * chain.last_step};
    }
    const int64_t least = std::min((wanted + inside - 1) / inside, steps);
    const auto even = EvenPart(nest.inner[q], least);
    if (!even && chain.wants_even && all <= kWholeOfUneven) return std::nullopt;
    return CpuChains::Part{.loop = q, .iterations = even.value_or(least)};
  }
}

}  // namespace

bool HasRoundings(const NestReduction& reduction) {
  const ReduceKind kind = reduction.reduction->kind;
  return kind == ReduceKind::kWelford || (kind == ReduceKind::kSum && IsFloating(reduction.dtype));
}

CpuChains CutChains(const Nest& nest, const CpuPlan& plan) {
  CpuChains chains;
  const bool has_columns = plan.As<CpuColumnBlocks>() != nullptr;
  if (!has_columns && plan.As<CpuRows>() == nullptr) return chains;
  for (const NestReduction& reduction : ReductionsOf(nest)) {
    if (!HasRoundings(reduction)) continue;
    const int64_t units = sym::Hint(sym::Product(nest.outer));
    if (reduction.IsOverRows() && units > kWholeUnits) chains.units = kUnitsOfPart;
    const int position = reduction.member->position;
    if (!reduction.member->reduces_inner || chains.passes.count(position) != 0) continue;
    const int copies = plan.CopiesAt(position);
    const Chain chain = {.loops = static_cast<int>(nest.inner.size()) - (has_columns ? 1 : 0),
                         .last_step = int64_t{plan.lanes} * copies,
                         .bounds = has_columns  ? kOfColumns
                                   : copies > 1 ? kOfCopies
                                                : kOfOneVector,
                         .wants_even = has_columns};
    if (const auto part = PartOf(nest, chain)) chains.passes[position] = *part;
  }
  return chains;
}

}  // namespace tensord::compiler
