// SPDX-License-Identifier: Apache-2.0
// Tiles of columns: a thread keeps to its columns, to what it sums and to what it loads for them
// once, and goes over rows.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_TILES_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_TILES_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

struct ColumnTiling {
  int width;
  int threads;
  int resident;  // blocks of a multiprocessor
  RowGroup group;
  ColumnTiles tiles;
  Expr copies;  // blocks that share a tile of columns
  Expr blocks;
};

// Requires: a nest of one pass in which columns are independent of each other.
ColumnTiling TileColumns(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_TILES_H_
