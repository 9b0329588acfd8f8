// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/workspace_bytes.h"

#include <algorithm>

namespace tensord::compiler {
namespace {

Expr Aligned(const Expr& bytes) {
  return sym::CeilDiv(bytes, Expr(kMemoryAlignment)) * kMemoryAlignment;
}

}  // namespace

Expr AlignedBytes(const BufferInfo& buffer) {
  return Aligned(StorageElements(buffer.sizes, buffer.strides) * ItemSize(buffer.dtype));
}

std::vector<Scratch> ScratchOf(const std::vector<LaunchInterface>& launches) {
  std::vector<Scratch> all;
  for (size_t i = 0; i < launches.size(); ++i) {
    const LaunchInterface& launch = launches[i];
    if (!launch.scratch_of_launch || launch.scratch_bytes.Is(0)) continue;
    all.push_back({static_cast<int>(i), Aligned(launch.scratch_bytes)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Scratch& a, const Scratch& b) {
    return sym::Hint(a.bytes) > sym::Hint(b.bytes);
  });
  return all;
}

}  // namespace tensord::compiler
