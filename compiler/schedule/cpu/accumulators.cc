// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/accumulators.h"

#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {
namespace {

// A body of at most this cost per vector is faster than the latency of one addition.
constexpr int kLightBody = 8;
constexpr int kCopies = 4;
// Shorter loops are over before several accumulators pay.
constexpr int kLeastVectors = 8;

bool PayCopies(const Nest& nest, int position) {
  int cost = 0;
  bool reduces = false, has_state = false;
  for (const NestMember& member : nest.members) {
    if (member.position != position) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kCompute) cost += InfoOf(inst.op).cost;
    }
    for (const Reduction& reduction : member.loops.reductions) {
      reduces |= member.reduces_inner;
      has_state |= HasState(reduction.kind);
    }
  }
  return has_state || (reduces && cost <= kLightBody);
}

}  // namespace

std::map<int, int> CountAccumulatorCopies(const Nest& nest, int lanes, int64_t extent) {
  std::map<int, int> copies;
  if (nest.inner.empty() || nest.shape == NestShape::kBlocked || lanes == 1 ||
      extent < kLeastVectors * lanes) {
    return copies;
  }
  for (const NestMember& member : nest.members) {
    const bool is_pass = member.position % 2 == 1;
    if (is_pass && PayCopies(nest, member.position)) copies[member.position] = kCopies;
  }
  return copies;
}

}  // namespace tensord::compiler
