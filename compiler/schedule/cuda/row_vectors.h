// SPDX-License-Identifier: Apache-2.0
// Which vectors a row is read and written in: wide ones also where rows are no multiple of them, or
// not aligned.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ROW_VECTORS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ROW_VECTORS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

struct RowVectors {
  int width = 1;  // elements of a vector
  RowAccess access = RowAccess::kAligned;
  Expr count;  // of a row

  // Of a row whose size is a hint: at least one.
  int64_t Hint() const;
};

// As wide as every access keeps aligned and the row divides.
RowVectors AlignedRowVectors(const NestContext& context);

// The best for this nest. `may_peel`: each row is run through once, with nothing reduced, so that
// vectors may start behind its first elements.
RowVectors ChooseRowVectors(const NestContext& context, bool may_peel);

// Vectors of a row that each thread of a group has in registers, with all arrays of as many
// elements, where blocks have so many threads; 0: they find no room, or the row's size is not
// known.
int VectorsInRegisters(const NestContext& context, const RowVectors& vectors, int group,
                       int threads);

// Elements that one vector of a row has in all register-resident arrays: at least its own.
int64_t RegisterElementsOfVector(const NestContext& context, int width);
// So many of a row a thread may have, in blocks that leave it the most registers.
inline constexpr int kMostRegisterElements = 150;

// Only the last vector of a row is not whole, or vectors of neighbours would be much narrower than
// wished: along rows they can be wider than along all elements.
bool AreWiderWithinRows(const Widths& widths);

// Aligned vectors would be much narrower, but those of loads alone need not be aligned.
bool MayLoadUnaligned(const Widths& widths, bool may_peel);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ROW_VECTORS_H_
