// SPDX-License-Identifier: Apache-2.0
// A nest that reads operands through tiles in shared memory (schedule/cuda/tiles.h).
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_

#include <map>

#include "compiler/codegen/cuda/body.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// What one block does. `vector`: the body of one vector. It calls its place in the tile `tile_row`
// and `tile_column`.
ir::Block LowerTiles(CudaBody* body, const Nest& nest, const CudaPlan& plan,
                     const ir::Block& vector);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
