// The text of a nest that reads operands through tiles in shared memory (schedule/cuda/tiles.h).
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_

#include <map>
#include <string>

#include "compiler/codegen/body.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// How an operand's tile is filled: the address of its first element, and the step along the vector
// loop, in terms of the loops at the tile's first element.
struct TileFill {
  std::string address, step;
};

// What one block does. `fills` by position of the operand, for those that the body reads; `lines`:
// the body of one vector. It calls its place in the tile `tile_row` and `tile_column`.
std::string TileText(BodyEmitter* body, const Nest& nest, const CudaTiles& plan, int width,
                     int threads, const std::map<size_t, TileFill>& fills,
                     const std::string& lines);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
