// SPDX-License-Identifier: Apache-2.0
// Ranges of slices, shared by the operators that take parts (view.cc) and those that put them back
// (concatenation.cc).
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_CONCATENATION_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_CONCATENATION_H_

#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// More results of one split than this are left to the library.
inline constexpr int64_t kMaxParts = 100'000;

struct SliceRange {
  Expr start;
  Expr length;  // number of elements taken
  Expr step;
};

// A dimension of a tensor that has one: InvalidArgument out of range and for zero-dim tensors.
absl::StatusOr<int> DimOf(const Tensor& t, int64_t dim);

// The arguments start, end and step, of a dimension of `size` elements, as in Python: negative ones
// count from the end, those out of range are clamped. Which case applies is decided at the hints:
// the job's guards hold it. They hold comparisons as torch makes them: an end at the size's hint is
// within the size, and an end at the start's hint is not before it.
absl::StatusOr<SliceRange> SliceOf(const Call& call, const Expr& size);

// A possibly negative index in [-size, size).
absl::StatusOr<Expr> IndexOf(const Expr& index, const Expr& size);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_CONCATENATION_H_
