// SPDX-License-Identifier: Apache-2.0
// How the threads of a CUDA kernel share the work of a nest.
//
// A unit of work is a vector or a tile of them (pointwise nests) or a row (nests with reductions or
// row statements); a group of threads works on a row together. Each kind of schedule has its
// parameters here and its file beside this one: whether it can take a nest, and by which figures
// its parameters are chosen.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_H_

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// How the threads of a group read and write the vectors of a row.
enum class RowAccess : uint8_t {
  kAligned,  // a row is a number of whole, aligned vectors
  kPartial,  // vectors are aligned; the last one of a row has fewer elements
  // The same, but loads are unaligned; stores are aligned.
  kUnaligned,
  // The same, where stores are aligned because vectors start behind a row's first elements.
  kPeeled,
  // Lanes of a vector are G elements of the row apart, not neighbours: neighbouring threads read
  // neighbouring elements one by one, whatever the row's length and alignment.
  kInterleaved,
};

// The threads of a row.
struct RowGroup {
  int threads = 1;  // G
  // Vectors of the row that each of them has in registers, all at once; 0: it runs through the row
  // in a loop, as often as there are passes.
  int register_vectors = 0;
  RowAccess access = RowAccess::kAligned;

  // ---- How a thread runs through them (row_inside.h)

  // The first of the register vectors, of which every thread that works on the row has all lanes;
  // of the others it looks.
  int whole_vectors = 0;
  // Without register vectors: vectors whose loads are under way at once; 0: as the CUDA compiler
  // likes.
  int vectors_in_flight = 0;
  // Sums of one pass that the groups of a block combine at once, two or more together: numbers of
  // reductions (ReductionsOf).
  std::vector<std::vector<int>> joint_sums;
};

// Blocks take one group-wide tile of the columns each and go over rows: a thread keeps to its
// columns.
struct ColumnTiles {
  int rows_in_flight = 1;  // rows of which a thread has the loads under way
};

// A thread computes a vector of every result.
struct CudaElements {
  int vectors_per_thread = 1;  // one after the other
  int vectors_in_flight = 0;   // of these: as RowGroup's
  // The function serves several nests, and finds sizes and buffers by its arguments.
  bool serves_many = false;
};

// What every load of one buffer at one index reads, through shared memory.
struct TileOperand {
  BufferId buffer;
  Expr index;
  DType storage;
  int run = 1;     // elements that are read at once, along the other loop
  int offset = 0;  // bytes, of its tile in the nest's shared memory
};

// A thread computes a vector of every result; a block takes a tile of two loops, for operands that
// lie across the vector loop.
struct CudaTiles {
  int loop = 0;  // the other loop; the vector loop is the nest's last
  // Elements of a tile along the vector loop and along the other one.
  int along = 0, across = 0;
  std::vector<TileOperand> operands;
  int shared_bytes = 0;
  int unroll = 1;  // vectors that a thread works on at once
};

// A group computes a row; nothing is reduced over rows.
struct CudaRows {
  RowGroup group;
  // The grid is bounded and a block does row after row. What later passes of a row read of what is
  // not in registers lies in scratch memory, where each block has its own row; otherwise it lies
  // in shared memory.
  bool loops = false;
  std::optional<ColumnTiles> column_tiles;  // of pointwise nests; with `loops`
  // A thread loads all its vectors of the row before it stores the first. With `register_vectors`.
  bool loads_first = false;
  // The caches evict what is read last, so that what is written leaves them sooner, in the order in
  // which it came: a long row's loads and stores hinder each other less.
  bool evicts_loads_last = false;
};

// A second launch, which combines the copies of a sweep's accumulators.
struct FinishLaunch {
  int threads = 1;  // of a block
  // Neighbouring columns of a block, of each of which so many threads take a share of the copies.
  int columns = 1;
  int copies_in_flight = 1;  // whose loads a thread has under way at once
};

// Blocks go over rows (over elements in a flat nest, whose group is one thread) and keep
// accumulators over them.
struct CudaSweep {
  RowGroup group;
  std::optional<ColumnTiles> column_tiles;
  // The loads of a group's next row are issued before the present one is worked on, and wait in
  // registers as they lie in memory. With `register_vectors`.
  bool prefetches = false;
  Expr copies;  // of the accumulators: one for each block that shares columns
  // The groups of a block combine their sums of columns through shared memory: the vectors of a
  // thread that they combine between two barriers, by number of the reduction (ReductionsOf), and
  // the bytes that this takes. Empty where a block has one group, or the sums are in memory.
  std::map<int, int> combined_vectors;
  int combine_bytes = 0;
  std::optional<FinishLaunch> finish;  // none: the last block combines the copies
};

// Few long rows: several blocks share one, and the last of them combines its parts.
struct CudaSplit {
  RowGroup group;  // the threads of a block
  int parts = 1;   // blocks of a row
};

// A thread owns a vector of columns and runs through the reduced or scanned loops.
struct CudaColumns {
  // Iterations of the innermost of them that load before the first one stores; 0: one after the
  // other, where nothing is stored before the last.
  int rows_in_flight = 0;
  // The scanned loop is cut into so many parts, each a thread's. With more than one, launches
  // before this one find what each part comes to.
  int parts = 1;
};

// The threads of a block share vectors of columns, each with a part of the rows that are reduced.
// What they have is combined through shared memory; and where several blocks share the columns, by
// the last of them.
struct CudaColumnGroups {
  int columns = 1;         // vectors of columns of a block
  int parts = 1;           // blocks that share them
  int rows_in_flight = 1;  // rows of which a thread has the loads under way
  int combine_bytes = 0;   // of shared memory
};

// A group runs through a row from front to back, a vector a thread at a time, in passes of which
// some scan: all its threads combine what they have there and know what stands before them.
struct CudaScanRows {
  // Groups are parts of a warp or whole blocks; rows are whole, aligned vectors. Without
  // `register_vectors` a thread has `vectors_in_flight` of the row at a time.
  RowGroup group;
  bool loops = false;        // as of CudaRows
  bool loads_first = false;  // those vectors are loaded before the first is scanned
  int parts = 1;             // blocks of a row; with more than one, as of CudaColumns
};

struct CudaPlan {
  int width = 1;      // W: elements of a vector
  int threads = 256;  // T: of a block
  Expr blocks;        // of the nest
  int resident = 1;   // blocks that a multiprocessor has room for, which bounds registers
  std::variant<CudaElements, CudaTiles, CudaRows, CudaSweep, CudaSplit, CudaColumns, CudaScanRows,
               CudaColumnGroups>
      kind;

  template <class Kind>
  bool Is() const {
    return std::holds_alternative<Kind>(kind);
  }
  // Null for a plan of another kind.
  template <class Kind>
  const Kind* As() const {
    return std::get_if<Kind>(&kind);
  }

  // ---- What kinds have in common, of those that lack it what they behave like

  // Of rows, sweeps, split and scanned rows; elsewhere each thread is alone.
  const RowGroup& group() const;
  const ColumnTiles* column_tiles() const;  // null: blocks take all columns
  bool loops_rows() const;                  // a block does row after row
  bool loads_first() const;                 // a thread loads its vectors before it uses the first
  // What the blocks leave is combined by the last of those that share a row or a total.
  bool combines_in_last_block() const;
  int combine_bytes() const;  // of shared memory, through which threads combine columns
  bool owns_columns() const;  // a thread keeps to a vector of the last inner loop
  int scanned_parts() const;  // of a scanned row, or of scanned columns

  int G() const { return group().threads; }
  int groups() const { return threads / G(); }  // of a block
  int register_vectors() const { return group().register_vectors; }
  int vectors_in_flight() const;
  RowAccess access() const { return group().access; }
  bool is_interleaved() const { return access() == RowAccess::kInterleaved; }
  bool is_peeled() const { return access() == RowAccess::kPeeled; }
  // Vectors of neighbours whose loads are unaligned.
  bool is_unaligned() const { return access() == RowAccess::kUnaligned || is_peeled(); }
  // The last vector of a row's neighbours has fewer elements.
  bool is_partial() const { return access() == RowAccess::kPartial || is_unaligned(); }
};

// "elements w8 t256 g1 c0": the kind, then the vector width, threads of a block and of a group, and
// vectors of a row in registers, then what else is not as usual. For dumps, tests and people.
std::string ToString(const CudaPlan& plan);

// "1 whole, joint sums 0 1": what follows from these, as far as it is not as usual; may be empty.
// For dumps.
std::string DetailsOf(const CudaPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_H_
