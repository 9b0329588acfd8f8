// Layouts that eager promises, and how tensors are brought into them.
#ifndef TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_
#define TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_

#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// A permutation of a contiguous layout: every element has its own place and there are no gaps.
// Strides of dimensions of size 1 do not matter.
bool IsDense(const Sizes& sizes, const Sizes& strides);

// The strides to give a new buffer for a value that eager lays out as `declared`.
Sizes BufferStrides(const TensorType& declared);

// True when the tensor is a view that addresses its elements as `strides` do.
bool HasStrides(const Tensor& t, const Sizes& strides);

// `t` as a realized view with exactly these strides: itself, relabelled, or copied.
Tensor WithStrides(Builder& b, const Tensor& t, const Sizes& strides);

// "float32[4, 8]".
std::string TypeText(DType dtype, const Sizes& sizes);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_
