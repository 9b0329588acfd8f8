// SPDX-License-Identifier: Apache-2.0
// How the tasks of a CPU kernel share the work of a nest, and what a task keeps where.
//
// A unit is the grain of parallelism: tasks take ranges of units. Inside a unit the nest's passes
// run one after the other, each over the inner loops, the last of them in vectors of so many lanes
// with a masked remainder. Each kind has its file beside this one: whether it can take a nest, and
// by which figures its parameters are chosen.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_PLAN_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_PLAN_H_

#include <map>
#include <set>
#include <string>
#include <variant>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// A unit is a chunk of a flat nest's elements.
struct CpuFlat {
  int64_t chunk = 0;  // elements; a multiple of every vector width
};

// A unit is a row of the outer loops, with all inner loops.
struct CpuRows {};

// A unit is as many rows as a vector has lanes: squares of the operands that lie across the vector
// loop are transposed into local arrays, from which the rows are read.
struct CpuTransposedRows {};

// A unit is a row of the outer loops and a block of the last inner loop's columns, each with an
// accumulator; the other inner loops run inside.
struct CpuColumnBlocks {
  int64_t columns = 0;  // of a block; a multiple of every vector width
};

// Where sums are gathered in parts (chains.h).
struct CpuChains {
  // So many iterations of an inner loop, the first of which has number 0.
  struct Part {
    int loop = 0;
    int64_t iterations = 0;  // of the vector loop: elements, whole steps of all its accumulators
  };
  std::map<int, Part> passes;  // by position
  int64_t units = 0;           // of what is reduced over the rows: so many of them; 0: no parts
};

struct CpuPlan {
  int lanes = 1;  // W: elements of a vector (tk::kLanes)
  // Whole vectors may leave elements of the vector loop, which run as one masked vector.
  bool has_tail = false;
  std::variant<CpuFlat, CpuRows, CpuTransposedRows, CpuColumnBlocks> kind;
  // By the position of a pass: how many accumulators each of its reductions has, to hide the
  // latency of a step; one where a position is not in it.
  std::map<int, int> accumulator_copies;
  CpuChains chains;
  // Rows of values for later passes that lie on the task's stack; others lie in its scratch memory.
  std::set<BufferId> stack_rows;
  // Elementary operations, roughly: of an element of a flat nest, of a row of others.
  int64_t cost = 1;

  template <class Kind>
  const Kind* As() const {
    return std::get_if<Kind>(&kind);
  }
  int CopiesAt(int position) const {
    const auto it = accumulator_copies.find(position);
    return it == accumulator_copies.end() ? 1 : it->second;
  }
};

// "rows w16 tail copies4@1 part64of0@1 units256 cost 300": the kind and vector width, then what is
// not as usual (copies at a pass, parts of so many iterations of an inner loop, of so many units),
// then the cost. For dumps, tests and people.
std::string ToString(const CpuPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_PLAN_H_
