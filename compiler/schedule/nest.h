// SPDX-License-Identifier: Apache-2.0
// The loop nest of a fusion group: what a kernel runs.
//
// A tiled nest has outer loops, which run in parallel, and per outer iteration a sequence of passes
// over the inner loops, the innermost of them in vectors. Between passes stand row statements,
// which run once per outer iteration. With X the outer and R the inner iteration space, a member is
// one of
//     X and R independent      pointwise, or a scan along R, in whose order a row then runs
//     X independent, R reduced row reduction: its result is a scalar of the row
//     X reduced, R independent column reduction: accumulators are private to a thread
//     X and R reduced          full reduction
//     X independent or reduced, without R: row statement
//     R independent, without X: column statement, which reads what column reductions give
// so that a LayerNorm backward with both kinds of reductions, say, is one pass over memory.
#ifndef TENSORD_COMPILER_SCHEDULE_NEST_H_
#define TENSORD_COMPILER_SCHEDULE_NEST_H_

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/loop_ir/program.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/device.h"

namespace tensord::compiler {

enum class NestShape : uint8_t {
  kFlat,     // every member covers one iteration space of N elements; only `inner` loops
  kTiled,    // outer and inner loops as above
  kBlocked,  // one member; the last inner loop is split into blocks that run in parallel, all
             // other inner loops are sequential inside: reductions and scans with an innermost
             // independent loop, and scatters, whose columns never collide
};

struct NestMember {
  int op;        // position in the program, for dependences
  LoopOp loops;  // loops are numbered as the nest's: outer first, then inner
  bool has_inner = true;
  bool has_outer = true;  // false: a column statement, which runs once, after all rows
  bool reduces_outer = false;
  bool reduces_inner = false;
  // Passes have odd positions, row statements even ones; members run in order of position.
  int position = 1;
};

struct Nest {
  NestShape shape;
  std::vector<Expr> outer;
  std::vector<Expr> inner;
  std::vector<NestMember> members;  // by position, then program order
  // Members that are column statements, where a target emits them apart.
  std::vector<NestMember> after;
  std::set<BufferId> local;  // written and read only here: never in memory as a buffer
  // Narrow floats that are written and read here, and read by later passes, other nests or calls:
  // what goes on here is rounded as those find it in memory.
  std::set<BufferId> rounded;
};

// The last loop, along which vectors lie.
inline sym::SymbolKey VectorLoopOf(const Nest& nest) {
  return {sym::AtomKind::kLoop, static_cast<int>(nest.outer.size() + nest.inner.size()) - 1};
}

// What a group is made of before its loops are aligned.
struct GroupShape {
  NestShape shape;
  Expr outer;  // X; for kFlat and kBlocked 1
  Expr inner;  // R; for kFlat the number of elements
};

// True for a reduction or scan whose rows lie in memory order (or that only runs row by row); false
// for one that reduces columns.
bool ReducesRows(const LoopOp& op, const DeviceTraits& device = {});

// The natural shape of an operation alone.
GroupShape ShapeOf(const LoopOp& op, const DeviceTraits& device);

// Builds the nest of these operations (in program order). The status says why they cannot share
// one. `accesses`: of the program.
absl::StatusOr<Nest> BuildNest(const Program& program, const AccessIndex& accesses,
                               const std::vector<int>& ops, const GroupShape& shape,
                               const DeviceTraits& device);

// The shape that two groups have together, before anything else is checked.
absl::StatusOr<GroupShape> CommonShape(const GroupShape& a, const GroupShape& b,
                                       const DeviceTraits& device);

std::string ToString(const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_NEST_H_
