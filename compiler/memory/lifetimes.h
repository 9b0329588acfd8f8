// SPDX-License-Identifier: Apache-2.0
// When buffers are in memory, in steps of the schedule.
#ifndef TENSORD_COMPILER_MEMORY_LIFETIMES_H_
#define TENSORD_COMPILER_MEMORY_LIFETIMES_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "compiler/schedule/launch.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

struct Lifetime {
  int first = -1, last = -1;  // steps; -1: never in memory

  bool Meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
  // From the first step of both to the last.
  Lifetime With(const Lifetime& other) const {
    return {std::min(first, other.first), std::max(last, other.last)};
  }
};

// More bytes at every step of a life.
void AddDuring(const Lifetime& life, int64_t bytes, std::vector<int64_t>* by_step);

// The buffers that each step touches in memory; `only_writes`: those that it writes. `launches[i]`
// belongs to step i (empty for extern steps).
std::vector<std::set<BufferId>> TouchedBuffers(const Program& program, const Schedule& schedule,
                                               const std::vector<LaunchInterface>& launches,
                                               bool only_writes = false);

// From the first step that touches a buffer to the last; per buffer.
std::vector<Lifetime> LifetimesOf(const Program& program,
                                  const std::vector<std::set<BufferId>>& touched);

// Buffers that outlive the call: outputs, and what they are views of; per buffer.
std::vector<bool> ReturnedBuffers(const Program& program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_LIFETIMES_H_
