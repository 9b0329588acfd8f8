// SPDX-License-Identifier: Apache-2.0
// What the GPU's library likes of products of matrices, for pad_products.cc.
#ifndef TENSORD_COMPILER_REWRITE_PRODUCT_FACTS_H_
#define TENSORD_COMPILER_REWRITE_PRODUCT_FACTS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "compiler/graph/layout.h"

namespace tensord::compiler {

// The names of a product's operands. `added`: what is added to it, or empty. `batch`: how many
// dimensions stand before the matrices.
struct ProductOperator {
  std::string_view op;
  std::string_view a, b, added;
  int batch;
};
inline constexpr ProductOperator kProducts[] = {
    {"aten::mm", "self", "mat2", "", 0},
    {"aten::bmm", "self", "mat2", "", 1},
    {"aten::addmm", "mat1", "mat2", "self", 0},
    {"aten::_addmm_activation", "mat1", "mat2", "self", 0},
    {"aten::baddbmm", "batch1", "batch2", "self", 1},
};

// Rows must be whole multiples of `elements` (16 bytes, what one load of the fast kernels takes) or
// the library falls back to kernels with narrower loads. float32 runs on kernels that mind only
// where TF32 is allowed, which the graph does not say: there only what cannot lose much is padded.
struct Alignment {
  DType dtype;
  int64_t elements;
  double work_factor;  // of PaddingCosts::least_work
  int64_t least_size;  // of every dimension: products with a shorter one are bound by memory
};
inline constexpr Alignment kAlignments[] = {
    {v1::DTYPE_BFLOAT16, 8, 1, 32},
    {v1::DTYPE_FLOAT16, 8, 1, 32},
    {v1::DTYPE_FLOAT32, 4, 32, 512},
};

// Sizes from `least_size` on become multiples of `multiple` elements: the tiles of large products
// are 64 and more columns wide, and under 1 % more work is nothing.
struct Multiple {
  int64_t least_size, multiple;
};
inline constexpr Multiple kMultiples[] = {{8192, 64}, {0, 1}};

// How much longer a product takes with rows of a multiple of 4 bytes, or only of 2. Measured with
// 8192x768 times 768x30522 (1.59 ms against 0.53) and 50257 columns (6.74 ms against 0.86).
inline constexpr double kSlowWithPairs = 3, kSlowWithSingles = 7.8;

inline int64_t PaddedSize(int64_t size, int64_t elements) {
  for (const Multiple& row : kMultiples) {
    if (size < row.least_size) continue;
    elements = std::max(elements, row.multiple);
    break;
  }
  return sym::CeilDiv(size, elements) * elements;
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_PRODUCT_FACTS_H_
