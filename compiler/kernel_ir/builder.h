// SPDX-License-Identifier: Apache-2.0
// Statements of one nest of loops while it grows, each at the outermost loop at which its operands
// are known.
#ifndef TENSORD_COMPILER_KERNEL_IR_BUILDER_H_
#define TENSORD_COMPILER_KERNEL_IR_BUILDER_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"

namespace tensord::compiler::ir {

// Level 0 is outside of the loops, level q + 1 the inside of loop q.
class LevelBuilder {
 public:
  explicit LevelBuilder(int levels) : blocks_(levels), known_(levels) {}

  // A name for a value at a level: that of an equal value at this level or outside of it where
  // there is one, else a new one, v0, v1, ...
  Value Define(int level, const Value& value);
  void Add(int level, Statement statement) { blocks_[level].push_back(std::move(statement)); }

  const Block& at(int level) const { return blocks_[level]; }
  // The statements of a level; it starts again, but its names are still known.
  Block Take(int level);
  // Drops the statements of a level and what it knows.
  void Forget(int level);

 private:
  std::vector<Block> blocks_;
  std::vector<std::map<std::string, Value>> known_;  // by the text of the value
  int next_name_ = 0;
};

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_BUILDER_H_
