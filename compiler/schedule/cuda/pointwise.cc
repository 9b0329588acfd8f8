// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/pointwise.h"

#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {

absl::Status MayIgnoreRows(const NestContext& context) {
  const Nest& nest = context.nest;
  if (!IsPointwise(nest)) return Reject("it is not pointwise");
  if (context.widths.prefers_columns && nest.inner.size() == 1) {
    return Reject("it loads more for its columns than for its rows");
  }
  if (nest.outer.empty() || context.HasFewLongRows()) return absl::OkStatus();
  if (IsRare(nest)) return Reject("it writes only rows that a condition names");
  if (GathersRows(nest)) return Reject("loads behind each other say where its rows are");
  if (!context.HasLongRow()) return absl::OkStatus();
  if (AreWiderWithinRows(context.widths)) return Reject("vectors are wide only within its rows");
  if (HasExpensiveRowScalars(nest)) return Reject("its rows' scalars cost more than a vector");
  return absl::OkStatus();
}

}  // namespace tensord::compiler
