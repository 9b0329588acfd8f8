// What tensord::product_by_rows and who asks for it agree on.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_PRODUCT_BY_ROWS_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_PRODUCT_BY_ROWS_H_

#include <cstdint>

namespace tensord::compiler {

// How far rows of `columns` elements are apart that begin alike, as to whole vectors of `aligned`.
int64_t PeriodOfRows(int64_t columns, int64_t aligned);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_PRODUCT_BY_ROWS_H_
