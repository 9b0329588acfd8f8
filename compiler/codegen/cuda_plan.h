// How the threads of a CUDA kernel share the work of a nest.
//
// A unit of work is a vector or a tile of them (pointwise nests) or a row (nests with reductions or
// row statements); a group of threads works on a row together. What the figures are chosen by is
// written at the choices in cuda_plan.cc.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_PLAN_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_PLAN_H_

#include <optional>
#include <set>
#include <string>

#include "compiler/codegen/cuda_tiles.h"
#include "compiler/schedule/nest.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

struct CudaPlan {
  enum Kind : uint8_t {
    kElements,  // a thread computes a vector of every result
    kTiles,     // the same; a block takes a tile of two loops, for operands that lie across
    kRows,      // a group computes a row; nothing is reduced over rows
    kSweep,     // blocks sweep over rows (or elements) and keep accumulators over them
    kSplit,     // few long rows: several blocks share one, and its parts are combined afterwards
    kColumns,   // a thread owns a vector of columns and runs through the reduced loops
  };
  Kind kind = kElements;
  int width = 1;      // W: elements of a vector
  int threads = 256;  // of a block
  int group = 1;      // G: threads that share a row
  // Vectors of a row that one thread holds, all at once in registers; 0: it runs through the row in
  // a loop, as often as there are passes.
  int chunks = 0;
  int turns = 1;               // kElements: vectors that one thread does, one after the other
  bool loops_rows = false;     // a block does row after row; the grid is bounded
  bool rows_in_shared = true;  // of a row in a loop: values for later passes are in shared memory
  // Lanes of a vector are G elements of the row apart, not neighbours: neighbouring threads read
  // neighbouring elements one by one, whatever the row's length and alignment.
  bool interleaved = false;
  bool partial = false;  // the last vector of a row has fewer elements
  // Vectors of neighbours whose loads may start anywhere; stores are aligned. With `partial`.
  bool anywhere = false;
  // The same, where stores are aligned because vectors start behind a row's first elements. kRows.
  bool peeled = false;
  int parts = 1;     // kSplit: blocks of a row
  int resident = 1;  // blocks that a multiprocessor has room for, which bounds registers
  // kElements: the function serves several nests, and finds sizes and buffers by its arguments.
  bool of_many = false;
  int rows_at_once = 1;  // tiled: rows of which a thread has the loads under way
  // Of rows that a block does one after the other: the loads of the next one are issued before the
  // present one is worked on, and wait in registers as they lie in memory. With `chunks`.
  bool ahead = false;
  // kRows: a thread loads all its vectors of the row before it stores the first. With `chunks`.
  bool loads_first = false;
  // kRows: the caches evict what is read last, so that what is written leaves them sooner, in the
  // order in which it came: a long row's loads and stores hinder each other less.
  bool evicts_loads_last = false;
  // kSweep: blocks take one group-wide tile of the columns each.
  bool tiled = false;
  std::optional<TilePlan> tiles;  // kTiles
  Expr blocks;                    // of the nest
  Expr copies;                    // kSweep: of the accumulators, one for each block that shares
                                  // columns
  // What the blocks leave is combined by the last of those that share a row or a total; otherwise
  // by a second launch.
  bool last_block = false;

  int groups() const { return threads / group; }
};

// `fixed_threads`: the block size that other nests of the launch ask for, or 0.
CudaPlan PlanCudaNest(const Program& program, const Nest& nest, const v1::CudaTarget& target,
                      int fixed_threads);

// A nest in the form that the emitters take: column statements are apart; in a flat one reductions
// over all elements are over all units, and where vectors are wide only within rows, it has rows.
Nest PrepareForCuda(const Program& program, Nest nest);

// "elements w8 t256", for tests and people.
std::string ToString(const CudaPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_PLAN_H_
