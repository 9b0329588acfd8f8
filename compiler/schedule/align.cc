// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/align.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "compiler/loop_ir/rewrite.h"
#include "compiler/schedule/loop_order.h"

namespace tensord::compiler {
namespace {

// How the loops of one operation lie in the total space X*R. Each side lists loops from outside to
// inside; `scale` is what lies inside the side (R for the outer side).
struct Side {
  std::vector<int> loops;
  std::vector<Expr> extents;
  Expr scale;
};

struct Placement {
  std::vector<Side> sides;
  bool has_inner = true;
  bool has_outer = true;
  bool reduces_outer = false;
  bool reduces_inner = false;
};

std::vector<int> Range(int first, size_t count) {
  std::vector<int> range(count);
  for (size_t i = 0; i < count; ++i) range[i] = first + static_cast<int>(i);
  return range;
}

absl::StatusOr<Placement> Place(const LoopOp& op, const GroupShape& shape,
                                const DeviceTraits& device) {
  const Expr independent = sym::Product(op.sizes), reduced = sym::Product(op.reduce_sizes);
  const int first_reduced = static_cast<int>(op.sizes.size());
  const Side par{Range(0, op.sizes.size()), op.sizes, Expr(1)};
  const Side red{Range(first_reduced, op.reduce_sizes.size()), op.reduce_sizes, Expr(1)};
  const auto scaled = [&](Side side) {
    side.scale = shape.inner;
    return side;
  };
  const Expr total = shape.outer * shape.inner;
  Placement placement;
  if (Scans(op)) {
    // It runs in the order of a row's elements, so a row has all of them and no others.
    if (shape.shape == NestShape::kTiled && independent == shape.outer && reduced == shape.inner) {
      placement.sides = {scaled(par), red};
      return placement;
    }
    return absl::FailedPreconditionError("iteration spaces differ");
  }
  if (op.reduce_sizes.empty()) {
    if (independent == total) {
      placement.sides = {par};
      return placement;
    }
    if (independent == shape.outer && shape.shape == NestShape::kTiled) {
      placement.sides = {scaled(par)};
      placement.has_inner = false;
      return placement;
    }
    if (independent == shape.inner && shape.shape == NestShape::kTiled && device.finishes_columns) {
      placement.sides = {par};
      placement.has_outer = false;
      return placement;
    }
    return absl::FailedPreconditionError("iteration spaces differ");
  }
  if (independent.Is(1) && reduced == total) {
    placement.sides = {red};
    placement.reduces_inner = true;
    placement.reduces_outer = shape.shape == NestShape::kTiled && !shape.outer.Is(1);
    return placement;
  }
  if (shape.shape == NestShape::kTiled) {
    if (independent.Is(1) && reduced == shape.outer) {
      placement.sides = {scaled(red)};
      placement.has_inner = false;
      placement.reduces_outer = true;
      return placement;
    }
    const bool rows = ReducesRows(op, device);
    if (rows && independent == shape.outer && reduced == shape.inner) {
      placement.sides = {scaled(par), red};
      placement.reduces_inner = true;
      return placement;
    }
    if (!rows && reduced == shape.outer && independent == shape.inner) {
      placement.sides = {scaled(red), par};
      placement.reduces_outer = true;
      return placement;
    }
  }
  return absl::FailedPreconditionError("iteration spaces differ");
}

// Suffix products of a side's extents, from inside to outside, the whole included.
std::vector<Expr> Cuts(const Side& side) {
  std::vector<Expr> cuts;
  Expr product = side.scale;
  for (auto it = side.extents.rbegin(); it != side.extents.rend(); ++it) {
    product *= *it;
    cuts.push_back(product);
  }
  return cuts;
}

void AddCut(std::vector<Expr>* cuts, const Expr& cut) {
  if (std::find(cuts->begin(), cuts->end(), cut) == cuts->end()) cuts->push_back(cut);
}

// The member's own loop variables in terms of the nest's.
std::vector<Expr> LoopsOf(const Placement& placement, const LoopOp& op,
                          const std::vector<Expr>& dims) {
  std::vector<Expr> loops(LoopCount(op), Expr(0));
  // suffix[k]: the product of dims inside dimension k.
  std::vector<Expr> suffix(dims.size() + 1, Expr(1));
  for (int k = static_cast<int>(dims.size()) - 1; k >= 0; --k) suffix[k] = suffix[k + 1] * dims[k];
  for (const Side& side : placement.sides) {
    Expr inside = side.scale;
    for (int i = static_cast<int>(side.loops.size()) - 1; i >= 0; --i) {
      const Expr outside = inside * side.extents[i];
      Expr value(0);
      for (size_t k = 0; k < dims.size(); ++k) {
        // Dimension k belongs to this loop when inside <= suffix[k+1] and suffix[k] <= outside.
        auto stride = sym::ExactDiv(suffix[k + 1], inside);
        if (stride && sym::ExactDiv(outside, suffix[k])) {
          value += Expr::Loop(static_cast<int>(k), dims[k]) * *stride;
        }
      }
      loops[side.loops[i]] = value;
      inside = outside;
    }
  }
  return loops;
}

// By what cuts are ordered from inside to outside: their hints. From a dimension on that is empty
// at the hints all are zero; there the one with fewer factors lies inside.
std::tuple<bool, int64_t, size_t, int64_t> SizeOf(const Expr& cut) {
  size_t factors = 0;
  int64_t coefficients = 0;
  for (const sym::Term& term : cut.terms()) {
    factors = std::max(factors, term.atoms.size());
    coefficients += std::abs(term.coefficient);
  }
  const int64_t size = sym::Hint(cut);
  return {size == 0, size, factors, coefficients};
}

// Merges neighbouring nest loops on one side of the boundary where no member minds.
void MergeNestLoops(Nest* nest) {
  for (int k = 0; k + 1 < static_cast<int>(nest->outer.size() + nest->inner.size());) {
    const int outer = static_cast<int>(nest->outer.size());
    if (k + 1 == outer) {
      ++k;
      continue;
    }
    auto extent = [&](int d) -> Expr& {
      return d < outer ? nest->outer[d] : nest->inner[d - outer];
    };
    std::vector<Expr> exprs;
    for (const NestMember& member : nest->members) {
      ForEachExpr(member.loops, [&](const Expr& e) { exprs.push_back(e); });
    }
    const Expr a = extent(k), b = extent(k + 1);
    if (!CanMergeLoops(exprs, k, a, b)) {
      ++k;
      continue;
    }
    const int count = outer + static_cast<int>(nest->inner.size());
    std::vector<Expr> loops;
    for (int d = 0; d < count; ++d) {
      loops.push_back(d == k       ? Expr(0)
                      : d == k + 1 ? Expr::Loop(k, a * b)
                                   : Expr::Loop(d < k ? d : d - 1, extent(d)));
    }
    for (NestMember& member : nest->members) SubstituteLoops(&member.loops, loops);
    extent(k) = a * b;
    auto& side = k < outer ? nest->outer : nest->inner;
    side.erase(side.begin() + (k < outer ? k : k - outer) + 1);
  }
}

}  // namespace

absl::Status AlignLoops(const Program& program, const std::vector<int>& ops,
                        const GroupShape& shape, const DeviceTraits& device, Nest* nest) {
  std::vector<Placement> placements;
  std::vector<Expr> cuts;
  AddCut(&cuts, shape.inner);
  AddCut(&cuts, shape.inner * shape.outer);
  for (int op : ops) {
    auto placement = Place(std::get<LoopOp>(program.operations[op]), shape, device);
    if (!placement.ok()) return placement.status();
    for (const Side& side : placement->sides) {
      for (const Expr& cut : Cuts(side)) AddCut(&cuts, cut);
    }
    placements.push_back(*std::move(placement));
  }
  std::erase_if(cuts, [](const Expr& cut) { return cut.Is(1); });
  std::stable_sort(cuts.begin(), cuts.end(),
                   [](const Expr& a, const Expr& b) { return SizeOf(a) < SizeOf(b); });
  // Each cut must divide the next; the quotients are the nest's loops, from inside to outside.
  Expr inside(1);
  std::vector<Expr> dims;
  size_t inner_count = 0;
  for (const Expr& cut : cuts) {
    auto extent = sym::ExactDiv(cut, inside);
    if (!extent) return absl::FailedPreconditionError("loops have no common refinement");
    if (!extent->Is(1)) dims.push_back(*extent);
    inside = cut;
    if (cut == shape.inner) inner_count = dims.size();
  }
  if (shape.inner.Is(1)) inner_count = 0;
  std::reverse(dims.begin(), dims.end());
  const size_t outer_count = dims.size() - inner_count;
  nest->shape = shape.shape;
  nest->outer.assign(dims.begin(), dims.begin() + outer_count);
  nest->inner.assign(dims.begin() + outer_count, dims.end());
  for (size_t i = 0; i < ops.size(); ++i) {
    NestMember member{.op = ops[i], .loops = std::get<LoopOp>(program.operations[ops[i]])};
    member.has_inner = placements[i].has_inner;
    member.has_outer = placements[i].has_outer;
    member.reduces_outer = placements[i].reduces_outer;
    member.reduces_inner = placements[i].reduces_inner;
    const std::vector<Expr> loops = LoopsOf(placements[i], member.loops, dims);
    SubstituteLoops(&member.loops, loops);
    nest->members.push_back(std::move(member));
  }
  MergeNestLoops(nest);
  return absl::OkStatus();
}

}  // namespace tensord::compiler
