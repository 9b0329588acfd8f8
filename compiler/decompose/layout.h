// SPDX-License-Identifier: Apache-2.0
// How tensors are brought into the layouts that eager promises.
#ifndef TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_
#define TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_

#include "compiler/graph/layout.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// True when the tensor is a view that addresses its elements as `strides` do.
bool HasStrides(const Tensor& t, const Sizes& strides);

// `t` as a realized view with exactly these strides: itself, relabelled, or copied.
Tensor WithStrides(Builder& b, const Tensor& t, const Sizes& strides);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LAYOUT_H_
