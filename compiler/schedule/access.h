// What an operation reads and writes, and in which order operations must stay.
#ifndef TENSORD_COMPILER_SCHEDULE_ACCESS_H_
#define TENSORD_COMPILER_SCHEDULE_ACCESS_H_

#include <set>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

struct Accesses {
  std::set<BufferId> reads;
  std::set<BufferId> writes;
};

Accesses AccessesOf(const Operation& operation);

// True when the two stores provably never touch the same element (as the parts of a concatenation).
bool StoresAreDisjoint(const BufferInfo& buffer, const Expr& a, const Expr& b);

// predecessors[j]: the operations i < j that must finish before j: it reads what they write, writes
// what they read, or writes what they write.
std::vector<std::set<int>> Predecessors(const Program& program);

// Bytes of one buffer with sizes at their hints.
int64_t BufferBytes(const BufferInfo& buffer);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ACCESS_H_
