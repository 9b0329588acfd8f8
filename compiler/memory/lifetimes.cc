// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/lifetimes.h"

#include <variant>

#include "compiler/schedule/access.h"

namespace tensord::compiler {

void AddDuring(const Lifetime& life, int64_t bytes, std::vector<int64_t>* by_step) {
  for (int step = life.first; step <= life.last; ++step) (*by_step)[step] += bytes;
}

std::vector<std::set<BufferId>> TouchedBuffers(const Program& program, const Schedule& schedule,
                                               const std::vector<LaunchInterface>& launches,
                                               bool only_writes) {
  std::vector<std::set<BufferId>> touched(schedule.steps.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (const int* op = std::get_if<int>(&schedule.steps[i].work)) {
      const Accesses accesses = AccessesOf(program.operations[*op]);
      touched[i].insert(accesses.writes.begin(), accesses.writes.end());
      if (!only_writes) touched[i].insert(accesses.reads.begin(), accesses.reads.end());
    } else {
      const auto& buffers = only_writes ? launches[i].written : launches[i].buffers;
      touched[i].insert(buffers.begin(), buffers.end());
    }
  }
  return touched;
}

std::vector<Lifetime> LifetimesOf(const Program& program,
                                  const std::vector<std::set<BufferId>>& touched) {
  std::vector<Lifetime> lifetimes(program.buffers.size());
  for (int step = 0; step < static_cast<int>(touched.size()); ++step) {
    for (BufferId id : touched[step]) {
      if (lifetimes[id].first < 0) lifetimes[id].first = step;
      lifetimes[id].last = step;
    }
  }
  return lifetimes;
}

std::vector<bool> ReturnedBuffers(const Program& program) {
  std::vector<bool> returned;
  for (const BufferInfo& buffer : program.buffers) returned.push_back(buffer.returned);
  for (const ProgramOutput& output : program.outputs) {
    if (output.kind == ProgramOutput::kTensor) returned[output.view.buffer] = true;
  }
  return returned;
}

}  // namespace tensord::compiler
