// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/live_bytes.h"

#include <algorithm>
#include <variant>

#include "compiler/schedule/library_scratch.h"

namespace tensord::compiler {

bool IsReleased(const Program& program, const AccessIndex& accesses,
                const std::vector<bool>& released, BufferId id) {
  const BufferInfo& buffer = program.buffers[id];
  if (buffer.kind == BufferKind::kConstant || buffer.returned || accesses.IsOutput(id)) {
    return false;
  }
  if (buffer.kind != BufferKind::kInput) return true;
  const auto number = static_cast<size_t>(buffer.number);
  return number < released.size() && released[number] &&
         std::ranges::none_of(accesses.Users(id),
                              [&](int op) { return accesses.Of(op).writes.count(id) != 0; });
}

std::vector<int64_t> LiveBytes(const Program& program, const AccessIndex& accesses,
                               const std::vector<Group>& groups,
                               const std::vector<bool>& released) {
  const int count = static_cast<int>(groups.size());
  std::vector<int> group_of(program.operations.size(), -1);
  for (int g = 0; g < count; ++g) {
    for (int op : groups[g].ops) group_of[op] = g;
  }
  std::vector<int64_t> begins(count, 0), ends(count, 0);  // bytes of the buffers that do so there
  int64_t before = 0;
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    const BufferInfo& buffer = program.buffers[id];
    const bool goes = IsReleased(program, accesses, released, id);
    const bool is_given = buffer.kind == BufferKind::kInput;
    if (buffer.kind == BufferKind::kConstant || (is_given && !goes)) continue;
    int first = count, last = -1;
    for (int op : accesses.Users(id)) {
      first = std::min(first, group_of[op]);
      last = std::max(last, group_of[op]);
    }
    if (last < 0) continue;
    const Group& maker = groups[first];
    if (!is_given && !maker.is_extern && maker.nest.local.count(id) > 0) continue;
    const int64_t bytes = BufferBytes(buffer);
    (is_given ? before : begins[first]) += bytes;
    if (goes) ends[last] += bytes;
  }
  std::vector<int64_t> live(count);
  for (int g = 0; g < count; ++g) {
    const int64_t after = before + begins[g] - ends[g];
    if (groups[g].is_extern) {
      const auto& call = std::get<ExternOp>(program.operations[groups[g].ops[0]]);
      live[g] = before + begins[g] + LibraryScratch(call);
    } else {
      live[g] = std::max(before, after);
    }
    before = after;
  }
  return live;
}

}  // namespace tensord::compiler
