// SPDX-License-Identifier: Apache-2.0
// Layouts of tensors: strides in elements, one for each dimension.
#ifndef TENSORD_COMPILER_GRAPH_LAYOUT_H_
#define TENSORD_COMPILER_GRAPH_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace tensord::compiler {

// Row-major strides. A size of 0 counts as 1, as in torch.
std::vector<Expr> ContiguousStrides(const std::vector<Expr>& sizes);

// A stride as it is where the tensor has elements: x for max(1, x), which is how torch counts a
// size that may be 0.
Expr StrideOfElements(const Expr& stride);

// A permutation of a contiguous layout: every element has its own place and there are no gaps.
// Strides of dimensions of size 1 do not matter, nor do those of a tensor without elements.
bool IsDense(const std::vector<Expr>& sizes, const std::vector<Expr>& strides);

// Some elements lie in one place.
bool IsExpanded(const TensorType& type);

// The strides to give a new buffer for a value that eager lays out as `declared`: its own, as its
// elements have them, where they are dense, else row-major.
std::vector<Expr> BufferStrides(const TensorType& declared);

// How many elements it has, and how many bytes they take, with sizes at their hints.
int64_t ElementsHint(const TensorType& type);
int64_t BytesHint(const TensorType& type);

// "float32[4, 8]".
std::string TypeText(DType dtype, const std::vector<Expr>& sizes);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_LAYOUT_H_
