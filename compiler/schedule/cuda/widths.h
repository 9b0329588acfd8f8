// SPDX-License-Identifier: Apache-2.0
// How wide the vectors of a CUDA nest may be, as far as types, alignment and the size of the body
// say.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_WIDTHS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_WIDTHS_H_

#include <optional>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Elements of the widest vector.
inline constexpr int kWidestVector = 8;

// Elements of a vector along the last inner loop; powers of two.
struct Widths {
  int wished = 1;   // by the sizes of elements and the body
  int partial = 1;  // keeps every access aligned
  int aligned = 1;  // and divides the innermost loop
  // Vectors of `wished` keep every store aligned, and loads may be unaligned (tk::load_unaligned).
  bool unaligned_loads = false;
  // The same, where a row's first vector starts behind the elements before its first aligned place.
  bool peeled = false;
  bool straight = true;  // no access lies across the loop
  int narrowest = 8;     // bytes of the narrowest element that lies along it
  // A thread had better keep to its columns, for what it loads for them is more than what is of
  // rows.
  bool prefers_columns = false;
  // Vectors that it then keeps, computed from what it loads or accumulated; and loads for each row.
  int column_vectors = 0, row_vectors = 0;
};

// The place, in elements of its buffer, at which the first of the stores finds a row: those of a
// peeled row are aligned together, up to a multiple of `width`. Nothing where they are not, or
// where a tensor says which row it is.
std::optional<Expr> StartOfStoredRow(const Nest& nest, int width);

// Whether some reduction is over rows.
bool HasColumnSums(const Nest& nest);
// One pass in which nothing is reduced along rows: columns are independent of each other.
bool IsPureColumns(const Nest& nest);

// What each member writes, it writes only for rows that a condition names: guarded stores.
bool IsRare(const Nest& nest);

// Bodies so large that registers are short.
bool IsHeavy(const Nest& nest);

Widths ChooseWidths(const Program& program, const Nest& nest);

// The largest power of two that divides `index` wherever a vector along `loop` starts, provided
// that it grows with the loop one by one; 0 otherwise.
int64_t VectorAlignment(const Expr& index, sym::SymbolKey loop);
// The same of pairs of elements, of which `index` is either: it grows by two, and they start at
// even places.
int64_t PairAlignment(const Expr& index, sym::SymbolKey loop);

// Whether 32 bits do not reach so many elements; symbolic numbers may be anything.
bool NeedsWideIndex(const Expr& elements);
bool NeedsWideIndex(const BufferInfo& buffer);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_WIDTHS_H_
