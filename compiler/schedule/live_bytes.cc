// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/live_bytes.h"

#include <algorithm>

namespace tensord::compiler {

std::vector<int64_t> LiveBytes(const Program& program, const AccessIndex& accesses,
                               const std::vector<Group>& groups) {
  const int count = static_cast<int>(groups.size());
  std::vector<int> group_of(program.operations.size(), -1);
  for (int g = 0; g < count; ++g) {
    for (int op : groups[g].ops) group_of[op] = g;
  }
  std::vector<int64_t> begins(count, 0), ends(count, 0);  // bytes of the buffers that do so there
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    const BufferInfo& buffer = program.buffers[id];
    if (buffer.kind == BufferKind::kInput || buffer.kind == BufferKind::kConstant) continue;
    int first = count, last = -1;
    for (int op : accesses.Users(id)) {
      first = std::min(first, group_of[op]);
      last = std::max(last, group_of[op]);
    }
    if (last < 0) continue;
    const Group& maker = groups[first];
    if (!maker.is_extern && maker.nest.local.count(id) > 0) continue;
    const int64_t bytes = BufferBytes(buffer);
    begins[first] += bytes;
    if (!buffer.returned && !accesses.IsOutput(id)) ends[last] += bytes;
  }
  std::vector<int64_t> live(count);
  int64_t before = 0;
  for (int g = 0; g < count; ++g) {
    const int64_t after = before + begins[g] - ends[g];
    live[g] = groups[g].is_extern ? before + begins[g] : std::max(before, after);
    before = after;
  }
  return live;
}

}  // namespace tensord::compiler
