// SPDX-License-Identifier: Apache-2.0
// What reading and writing through index tensors share (indexing.cc, embedding.cc).
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_INDEXING_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_INDEXING_H_

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {

// Instructions that one index costs: cast, wrap, two bounds.
constexpr int kIndirectCost = 5;

// Unimplemented unless an index is int64 or int32.
absl::Status NeedIntegers(const Tensor& index);

// Unimplemented for a dimension of size 0, of which no index is in range: the library's to say.
absl::Status NeedElements(const Expr& size);

// Sums of narrow floats are kept in float32 until the end.
inline DType SumType(DType dtype) { return IsComplex(dtype) ? dtype : ComputeType(dtype); }

// ---- embedding.cc: lowerings, listed in indexing.cc's table
Results Embedding(Builder& b, const Call& call);
Results EmbeddingBackward(Builder& b, const Call& call);
Results EmbeddingAdded(Builder& b, const Call& call);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_INDEXING_H_
