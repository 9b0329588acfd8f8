// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/stack_rows.h"

#include <algorithm>

namespace tensord::compiler {
namespace {

// Of all rows together.
constexpr int64_t kMostStackBytes = 64 << 10;

bool IsReadLater(const Nest& nest, BufferId buffer, int position) {
  return std::any_of(nest.members.begin(), nest.members.end(), [&](const NestMember& member) {
    const std::vector<Inst>& insts = member.loops.block.insts;
    return member.position > position &&
           std::any_of(insts.begin(), insts.end(), [buffer](const Inst& inst) {
             return inst.kind == InstKind::kLoad && inst.buffer == buffer;
           });
  });
}

}  // namespace

std::set<BufferId> FindStackRows(const Program& program, const Nest& nest) {
  std::set<BufferId> rows, on_stack;
  if (nest.inner.empty()) return on_stack;
  const auto elements = sym::Product(nest.inner).AsConstant();
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Store& store : member.loops.stores) {
      if (nest.local.count(store.buffer) == 0 ||
          !IsReadLater(nest, store.buffer, member.position) || !rows.insert(store.buffer).second) {
        continue;
      }
      // The n-th row has the n-th part: all fit where they are equally long.
      const int64_t item = ItemSize(ComputeType(program.buffers[store.buffer].dtype));
      const auto share = kMostStackBytes / static_cast<int64_t>(rows.size());
      if (elements && *elements * item <= share) on_stack.insert(store.buffer);
    }
  }
  return on_stack;
}

}  // namespace tensord::compiler
