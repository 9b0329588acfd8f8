// SPDX-License-Identifier: Apache-2.0
// Where numbers belong in sorted ones: a binary search for each, unrolled. It looks at the numbers
// that eager looks at (ATen's cus_lower_bound and cus_upper_bound), so that numbers that are not
// sorted, or NaN among them, have eager's answers too.
#include <bit>

#include "compiler/decompose/expressions.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Longer searches are the library's.
constexpr int64_t kMostSorted = int64_t{1} << 20;

// `sorted`: one row for all numbers, or one for each row of theirs.
Results Search(Builder& b, const Call& call, const Tensor& sorted, const Tensor& numbers) {
  const bool right = call.boolean("right") ||
                     (call.takes("side") && call.has("side") && call.text("side") == "right");
  if (call.takes("sorter") && call.has("sorter")) return absl::UnimplementedError("a sorter");
  if (sorted.dtype() != numbers.dtype()) return absl::UnimplementedError("two types of numbers");
  if (sorted.rank() == 0) return absl::InvalidArgumentError("needs sorted numbers");
  if (sorted.rank() > 1) {
    bool fits = sorted.rank() == numbers.rank();
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) {
      fits = sym::MayBeEqual(sorted.sizes()[d], numbers.sizes()[d]);
    }
    if (!fits) return absl::InvalidArgumentError("the rows of sorted numbers are not the numbers'");
  }
  const std::optional<int64_t> count = sorted.sizes().back().AsConstant();
  if (!count || *count > kMostSorted) return absl::UnimplementedError("many sorted numbers");
  if (*count == 0) return absl::UnimplementedError("no sorted numbers");

  const int steps = std::bit_width(static_cast<uint64_t>(*count));
  const DType result = call.boolean("out_int32") ? kInt32 : kInt64;
  std::vector<Tensor> reads(steps, sorted);
  reads.push_back(numbers);
  return std::vector<Tensor>{
      b.Pointwise(result, numbers.sizes(), reads, 8 * steps, [=](Recorder& ops, Index index) {
        const Elem number{&ops, numbers.Load(ops, index)};
        std::vector<Expr> at(sorted.rank() > 1 ? index.begin() : index.end(), index.end());
        at.resize(sorted.rank());
        // Between `first` and `rest` numbers behind it. All before it belong before the number.
        Elem first{&ops, ops.ConstantInt(0, kInt64)};
        Elem rest{&ops, ops.ConstantInt(*count, kInt64)};
        for (int step = 0; step < steps; ++step) {
          const Elem half = Apply(Op::k_shift_right, rest, rest.Like(1));
          const Elem middle = first + half;
          // Where nothing is left, the search stays where it is, whatever is read.
          at.back() = ops.Indirect(middle.value, sorted.sizes().back());
          const Elem here{&ops, sorted.Load(ops, at)};
          // As eager asks, so that NaN belongs behind all.
          const Elem before = And(rest > 0, Not(right ? here > number : here >= number));
          first = Select(before, middle + 1, first);
          rest = Select(before, rest - half - 1, half);
        }
        return ops.Cast(first.value, result);
      })};
}

Results Searchsorted(Builder& b, const Call& call) {
  return Search(b, call, call.tensor("sorted_sequence"), call.tensor("self"));
}

Results Bucketize(Builder& b, const Call& call) {
  const Tensor boundaries = call.tensor("boundaries");
  if (boundaries.rank() != 1)
    return absl::InvalidArgumentError("boundaries must have one dimension");
  return Search(b, call, boundaries, call.tensor("self"));
}

const Lowering kSearchLowerings[] = {
    {"aten::searchsorted.Tensor", Searchsorted},
    {"aten::bucketize.Tensor", Bucketize},
};

}  // namespace

std::span<const Lowering> SearchLowerings() { return kSearchLowerings; }

}  // namespace tensord::compiler
