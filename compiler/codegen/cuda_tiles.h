// Operands of a pointwise nest that lie across its vector loop, read through shared memory.
//
// In `x + y.t()` vectors run along the rows of x, that is along the columns of y: neighbouring
// threads would read y far apart, a few bytes of each line of the cache. Instead a block takes a
// tile, some of the vector loop times some of the loop along which y is contiguous; it reads the
// tile of y along y's own rows into shared memory (kernels/cuda/tile.cuh), and vectors from there.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/body.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// What every load of one buffer at one index reads.
struct TileOperand {
  BufferId buffer;
  Expr index;
  DType storage;
  int run = 1;     // elements that are read at once, along the other loop
  int offset = 0;  // bytes, of its tile in the nest's shared memory
};

struct TilePlan {
  int loop = 0;  // the other loop; the vector loop is the nest's last
  // Elements of a tile along the vector loop and along the other one.
  int along = 0, across = 0;
  std::vector<TileOperand> operands;
  int shared_bytes = 0;
  int unroll = 1;  // vectors that a thread works on at once
  Expr blocks;
};

// A tile of elements for each block of `threads`, where operands of this flat pointwise nest lie
// across. Nothing where none does, or where loops are shorter than the least tile. Operands that
// find no room are not in the plan.
std::optional<TilePlan> PlanTiles(const Program& program, const Nest& nest,
                                  const v1::CudaTarget& target, int width, int threads);

// How an operand's tile is filled: the address of its first element, and the step along the vector
// loop, in terms of the loops at the tile's first element.
struct TileFill {
  std::string address, step;
};

// What one block does. `fills` by position of the operand, for those that the body reads; `lines`:
// the body of one vector. It calls its place in the tile `tile_row` and `tile_column`.
std::string TileText(BodyEmitter* body, const Nest& nest, const TilePlan& plan, int width,
                     int threads, const std::map<size_t, TileFill>& fills,
                     const std::string& lines);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_TILES_H_
