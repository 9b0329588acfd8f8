// SPDX-License-Identifier: Apache-2.0
// How a max pooling says where the maximum of a window is.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_MAX_POOL_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_MAX_POOL_H_

#include <span>
#include <vector>

#include "compiler/decompose/operators/windows.h"

namespace tensord::compiler {

// A row-major number: of the element in the image's pooled dimensions, or of the element in its
// window.
struct PlaceForm {
  DType dtype;
  DType compute;
  bool in_window;

  // `elements`: one of each dimension.
  Expr PlaceOf(std::span<const Expr> extents, std::span<const Element> elements) const;
  // The extents for PlaceOf.
  std::vector<Expr> ExtentsOf(std::span<const Axis> axes) const;
};

// As eager has it.
inline constexpr PlaceForm kIndex = {kInt64, kInt64, /*in_window=*/false};
// Smaller, for what one step saves for another.
inline constexpr PlaceForm kOffset = {v1::DTYPE_UINT8, kInt32, /*in_window=*/true};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_MAX_POOL_H_
