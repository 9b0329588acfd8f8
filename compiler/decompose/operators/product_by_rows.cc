// SPDX-License-Identifier: Apache-2.0
// A product whose result has rows of a length that the library is slow with, and is given out; or
// whose weight is large and computed for it alone.
//
// tensord::product_by_rows(a [m, k], weight [n, k], bias [n]?, aligned, parts): a times the weight
// transposed, written where it is wanted and nowhere else. Rows of n elements begin at any
// alignment, but every `period`-th at the same, so the library computes those rows together: to it
// they are the rows of a matrix `period` times as wide, of which it takes the columns from the
// first aligned one on, a multiple of `aligned`. What that leaves, less than `aligned` columns at
// either end, is a narrow product of all rows, which is copied to its place. Rows of whole vectors
// are all aligned and leave nothing. A weight that has to be computed is there in so many parts,
// one after the other.
#include "compiler/ops/product_by_rows.h"

#include <algorithm>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/lowering.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// One such product while it is lowered.
class ByRows {
 public:
  ByRows(Builder& b, const Tensor& a, const Tensor& w, const std::optional<Tensor>& added,
         int64_t aligned)
      : b_(b),
        a_(b.Realize(a)),
        w_(w),
        added_(added),
        aligned_(aligned),
        columns_(sym::Hint(w.sizes()[0])),
        period_(PeriodOfRows(columns_, aligned)),
        whole_(b.Allocate(a.dtype(), {a.sizes()[0], w.sizes()[0]})) {}

  Tensor Run(int64_t parts) {
    const bool has_ends = columns_ % aligned_ != 0;
    const Tensor ends = has_ends ? Ends() : Tensor();
    // Whole tiles of the library's, and vectors.
    constexpr int64_t kUnit = 1024;
    const int64_t width = sym::CeilDiv(columns_, parts * kUnit) * kUnit;
    // Rows begin up to a vector later than the part does. The memory serves one part after another.
    const int64_t rows = std::min(width + (has_ends ? aligned_ : 0), columns_);
    const Tensor converted = w_.view() ? w_ : b_.Allocate(w_.dtype(), {Expr(rows), w_.sizes()[1]});
    for (int64_t from = 0; from < columns_; from += width) {
      const int64_t count = std::min(rows, columns_ - from);
      Tensor part = Rows(w_, from, count);
      if (!w_.view()) {
        const Tensor place = Rows(converted, 0, count);
        b_.Assign(place, part);
        part = place;
      }
      for (int64_t first = 0; first < period_; ++first) {
        const int64_t skipped = (aligned_ - first * columns_ % aligned_) % aligned_;
        const int64_t left = std::max<int64_t>(0, columns_ - from - skipped);
        const int64_t taken = std::min(width, left / aligned_ * aligned_);
        if (taken == 0) continue;
        Multiply(EquallyAlignedRows(a_, first), Rows(part, skipped, taken), skipped + from,
                 Columns(EquallyAlignedRows(whole_, first), skipped + from, taken));
      }
    }
    if (!has_ends) return whole_;
    b_.Assign(Columns(whole_, 0, aligned_), Columns(ends, 0, aligned_));
    b_.Assign(Columns(whole_, columns_ - aligned_, aligned_), Columns(ends, aligned_, aligned_));
    return whole_;
  }

 private:
  Tensor Rows(const Tensor& t, int64_t from, int64_t count) {
    return b_.Slice(t, 0, Expr(from), Expr(count), 1);
  }
  Tensor Columns(const Tensor& t, int64_t from, int64_t count) {
    return b_.Slice(t, 1, Expr(from), Expr(count), 1);
  }
  Tensor EquallyAlignedRows(const Tensor& t, int64_t first) {
    return b_.Slice(t, 0, Expr(first), sym::CeilDiv(t.sizes()[0] - first, Expr(period_)), period_);
  }

  // The first and the last columns of all rows, side by side.
  Tensor Ends() {
    const int64_t aligned = aligned_, between = columns_ - 2 * aligned_;
    const auto ends_of = [&](const Tensor& t) {
      Sizes sizes = t.sizes();
      sizes[0] = Expr(2 * aligned);
      return b_.Reindex(t, std::move(sizes), [=](Index index) {
        std::vector<Expr> from(index.begin(), index.end());
        from[0] += sym::FloorDiv(from[0], Expr(aligned)) * between;
        return from;
      });
    };
    const Tensor ends = b_.Allocate(a_.dtype(), {a_.sizes()[0], Expr(2 * aligned)});
    Multiply(a_, ends_of(w_), added_ ? ends_of(*added_) : Tensor(), ends);
    return ends;
  }

  // Where a bias is added, to the columns from `from` on: a copy, since slices of the bias itself
  // may begin at any alignment.
  void Multiply(const Tensor& rows, const Tensor& w, int64_t from, const Tensor& result) {
    Multiply(rows, w,
             added_ ? LazyCopy(b_, b_.Slice(*added_, 0, Expr(from), w.sizes()[0], 1)) : Tensor(),
             result);
  }

  // result = rows of a times rows of w, transposed, plus what is added.
  void Multiply(const Tensor& rows, const Tensor& w, const Tensor& added, const Tensor& result) {
    ExternArgList args = {b_.TensorArg(rows), b_.TensorArg(b_.Permute(w, {1, 0}))};
    if (added_) {
      args.insert(args.begin(), b_.TensorArg(added));
      args.insert(args.end(), {ScalarArg(1), ScalarArg(1)});
    }
    b_.ExternInto(added_ ? "aten::addmm" : "aten::mm", "out", std::move(args), result);
  }

  Builder& b_;
  const Tensor a_, w_;
  const std::optional<Tensor> added_;
  const int64_t aligned_, columns_, period_;
  const Tensor whole_;
};

Results ProductByRows(Builder& b, const Call& call) {
  const Tensor a = call.tensor("a"), w = call.tensor("weight");
  const int64_t aligned = call.constant("aligned"), parts = call.constant("parts");
  const Sizes &left = a.sizes(), &right = w.sizes();
  if (left.size() != 2 || right.size() != 2 || !sym::MayBeEqual(left[1], right[1]) ||
      !right[0].IsConstant() || aligned < 1 || parts < 1 || sym::Hint(right[0]) < 2 * aligned) {
    return absl::InvalidArgumentError("the operands are no matrices that fit");
  }
  // What is in memory already gains nothing by parts.
  const bool whole = w.view() || parts == 1;
  ByRows product(b, a, whole ? b.Realize(w) : w, call.optional_tensor("bias"), aligned);
  return std::vector<Tensor>{product.Run(whole ? 1 : parts)};
}

const Lowering kProductByRowsLowerings[] = {
    {"tensord::product_by_rows", ProductByRows},
};

}  // namespace

std::span<const Lowering> ProductByRowsLowerings() { return kProductByRowsLowerings; }

}  // namespace tensord::compiler
