// SPDX-License-Identifier: Apache-2.0
// What an operation reads and writes, and in which order operations must stay.
#ifndef TENSORD_COMPILER_SCHEDULE_ACCESS_H_
#define TENSORD_COMPILER_SCHEDULE_ACCESS_H_

#include <absl/container/btree_set.h>

#include <map>
#include <set>
#include <utility>
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

// What an operation loads from one buffer, or stores into it.
struct AccessedParts {
  std::vector<AccessBox> boxes;  // empty when some elements cannot be told

  static AccessedParts Stores(const Program& program, int op, BufferId buffer);
  static AccessedParts Loads(const Program& program, int op, BufferId buffer);
  // False when they provably share no element.
  bool MayMeet(const AccessedParts& other) const;

 private:
  // False where the elements cannot be told.
  bool Add(const BufferInfo& buffer, const Expr& index);
};

// The writers of one buffer. Those of a concatenation's parts, however many, are told apart without
// a look at each.
class WriterIndex {
 public:
  void Add(int op, AccessedParts parts);
  size_t size() const { return writers_.size(); }
  // The operations that may write any of these elements, in the order in which they were added.
  std::vector<int> Meeting(const AccessedParts& parts) const;

 private:
  struct Writer {
    int op;
    AccessedParts parts;
  };
  // The coordinates that writers cover, while they are constant and no two of them meet.
  struct Dimension {
    bool apart = true;
    std::map<int64_t, std::pair<int64_t, size_t>> ranges;  // begin -> end, writer

    void Add(const CoordinateRange& range, size_t writer);
    // False where this dimension does not tell.
    bool Collect(const CoordinateRange& range, std::set<size_t>* writers) const;
  };

  std::vector<Writer> writers_;
  std::vector<Dimension> dimensions_;  // none once some elements could not be told
};

using OperationSet = absl::btree_set<int>;

// predecessors[j]: operations i < j that must finish before j: it reads elements that they
// write, writes a buffer that they read, or elements that they write, or both are ordered calls.
// What follows from others may be left out.
std::vector<OperationSet> Predecessors(const Program& program, const AccessIndex& accesses);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ACCESS_H_
