// SPDX-License-Identifier: Apache-2.0
// What an operation reads and writes, and in which order operations must stay.
#ifndef TENSORD_COMPILER_SCHEDULE_ACCESS_H_
#define TENSORD_COMPILER_SCHEDULE_ACCESS_H_

#include <absl/container/btree_set.h>

#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

struct Accesses {
  absl::btree_set<BufferId> reads;
  absl::btree_set<BufferId> writes;
};

Accesses AccessesOf(const LoopOp& loops);
Accesses AccessesOf(const Operation& operation);

// The same for all operations of a program, found once.
class AccessIndex {
 public:
  explicit AccessIndex(const Program& program);
  const Accesses& Of(int op) const { return accesses_[op]; }
  // The operations that read or write a buffer, in program order.
  const std::vector<int>& Users(BufferId buffer) const { return users_[buffer]; }
  // Whether an output of the program is the buffer or a view of it.
  bool IsOutput(BufferId buffer) const { return is_output_[buffer]; }

 private:
  std::vector<Accesses> accesses_;       // by operation
  std::vector<std::vector<int>> users_;  // by buffer
  std::vector<bool> is_output_;          // by buffer
};

// The coordinates that a load or store covers, outermost dimension first; empty when they cannot be
// told.
struct CoordinateRange {
  Expr least, extent;
};
using AccessBox = std::vector<CoordinateRange>;
AccessBox AccessBoxOf(const BufferInfo& buffer, const Expr& index);

// True when two accesses to one buffer provably never touch the same element (as the parts of a
// concatenation).
bool AreDisjoint(const AccessBox& a, const AccessBox& b);

// Whether one operation may load elements of a buffer that another one stores.
bool MayMeet(const Program& program, int loads, int stores, BufferId buffer);

using OperationSet = absl::btree_set<int>;

// predecessors[j]: operations i < j that must finish before j: it reads elements that they
// write, writes a buffer that they read, or elements that they write, or both are ordered calls.
// What follows from others may be left out.
std::vector<OperationSet> Predecessors(const Program& program, const AccessIndex& accesses);

// Bytes of one buffer with sizes at their hints.
int64_t BufferBytes(const BufferInfo& buffer);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ACCESS_H_
