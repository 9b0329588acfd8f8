// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/builder.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/kernel_ir/text.h"

namespace tensord::compiler::ir {

Value LevelBuilder::Define(int level, const Value& value) {
  const std::string text = ToString(value);
  for (int l = 0; l <= level; ++l) {
    if (const auto it = known_[l].find(text); it != known_[l].end()) return it->second;
  }
  const std::string name = absl::StrCat("v", next_name_++);
  blocks_[level].push_back(Let(name, value));
  return known_[level][text] = Var(name, value.type());
}

Block LevelBuilder::Take(int level) { return std::exchange(blocks_[level], {}); }

void LevelBuilder::Forget(int level) {
  blocks_[level].clear();
  known_[level].clear();
}

}  // namespace tensord::compiler::ir
