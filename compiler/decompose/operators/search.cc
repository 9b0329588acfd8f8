// SPDX-License-Identifier: Apache-2.0
// Where numbers belong in sorted ones: a binary search for each, unrolled, whose steps halve from
// the largest power of two that the sorted numbers have room for.
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

  int64_t largest = 1;
  int steps = 1;
  while (2 * largest <= *count) largest *= 2, ++steps;
  const DType result = call.boolean("out_int32") ? kInt32 : kInt64;
  std::vector<Tensor> reads(steps, sorted);
  reads.push_back(numbers);
  return std::vector<Tensor>{
      b.Pointwise(result, numbers.sizes(), reads, 6 * steps, [=](Recorder& ops, Index index) {
        const Elem number{&ops, numbers.Load(ops, index)};
        std::vector<Expr> at(sorted.rank() > 1 ? index.begin() : index.end(), index.end());
        at.resize(sorted.rank());
        Elem found{&ops, ops.ConstantInt(0, kInt64)};  // all before it belong before the number
        for (int64_t step = largest; step > 0; step /= 2) {
          const Elem next = found + static_cast<double>(step);
          const Elem inside = next <= static_cast<double>(*count);
          // Beyond the end the search stays where it is, whatever is read.
          at.back() = ops.Indirect((next - 1.0).value, sorted.sizes().back());
          const Elem here{&ops, sorted.Load(ops, at)};
          // As eager asks, so that NaN belongs behind all.
          const Elem before = Not(right ? here > number : here >= number);
          found = Select(And(inside, before), next, found);
        }
        return ops.Cast(found.value, result);
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
