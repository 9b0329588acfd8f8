// SPDX-License-Identifier: Apache-2.0
// What tensord::product_by_rows and the pass that asks for it agree on.
#ifndef TENSORD_COMPILER_OPS_PRODUCT_BY_ROWS_H_
#define TENSORD_COMPILER_OPS_PRODUCT_BY_ROWS_H_

#include <cstdint>
#include <numeric>

namespace tensord::compiler {

// How far rows of `columns` elements are apart that are equally aligned, as to whole vectors of
// `aligned`.
inline int64_t PeriodOfRows(int64_t columns, int64_t aligned) {
  return aligned / std::gcd(columns, aligned);
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_OPS_PRODUCT_BY_ROWS_H_
