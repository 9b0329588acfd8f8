// SPDX-License-Identifier: Apache-2.0
// What a plan of a program on CUDA takes at its fullest step, by the lives of its buffers: what the
// runtime does with memory, without running it.
#ifndef TENSORD_TESTS_UNIT_MEMORY_PLANNED_PEAK_H_
#define TENSORD_TESTS_UNIT_MEMORY_PLANNED_PEAK_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "compiler/graph/dtype.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::testing {

class PlannedMemory {
 public:
  explicit PlannedMemory(const v1::Artifact& artifact) : artifact_(artifact) {
    const int steps = artifact.steps_size();
    std::vector<int> first(artifact.buffers_size(), steps), last(artifact.buffers_size(), -1);
    const auto use = [&](uint32_t buffer, int step) {
      const uint32_t root = Root(buffer);
      first[root] = std::min(first[root], step);
      last[root] = std::max(last[root], step);
    };
    for (int i = 0; i < steps; ++i) {
      const v1::Step& step = artifact.steps(i);
      for (uint32_t buffer : step.launch().buffers()) use(buffer, i);
      for (uint32_t buffer : step.call().results()) use(buffer, i);
      for (const v1::Argument& arg : step.call().args()) {
        if (arg.has_value()) use(arg.value().value(), i);
      }
      if (step.kind_case() == v1::Step::kFree) use(step.free(), i);
    }
    std::set<uint32_t> outputs;
    for (const v1::ProgramOutput& output : artifact.outputs()) {
      if (output.kind_case() == v1::ProgramOutput::kBuffer) outputs.insert(Root(output.buffer()));
    }
    // A block in an input's memory takes none of its own, and that memory is there until its end.
    const auto count = static_cast<uint32_t>(artifact.buffers_size());
    for (uint32_t b = 0; b < count; ++b) {
      for (uint32_t input = 0; artifact.buffers(b).has_donor() && input < count; ++input) {
        if (artifact.buffers(input).has_input() &&
            artifact.buffers(input).input() == artifact.buffers(b).donor()) {
          last[input] = std::max(last[input], std::exchange(last[b], -1));
        }
      }
    }
    by_step_.assign(steps, artifact.workspace_bytes().constant());
    for (int b = 0; b < artifact.buffers_size(); ++b) {
      const v1::Buffer& buffer = artifact.buffers(b);
      const bool input = buffer.storage_case() == v1::Buffer::kInput;
      if (last[b] < 0 || (input && artifact.inputs(buffer.input()).is_parameter()) ||
          (buffer.storage_case() == v1::Buffer::kWorkspace && !buffer.standalone())) {
        continue;
      }
      const int begin = input ? 0 : first[b];
      const int end = outputs.count(b) > 0 ? steps - 1 : last[b];
      for (int step = begin; step <= end; ++step) by_step_[step] += Bytes(buffer.meta());
    }
  }

  int64_t peak() const { return *std::max_element(by_step_.begin(), by_step_.end()); }

 private:
  uint32_t Root(uint32_t buffer) const {
    while (artifact_.buffers(buffer).storage_case() == v1::Buffer::kViewOf) {
      buffer = artifact_.buffers(buffer).view_of();
    }
    return buffer;
  }

  static int64_t Bytes(const v1::TensorMeta& meta) {
    int64_t elements = 1;
    for (int d = 0; d < meta.sizes_size(); ++d) {
      elements += (meta.sizes(d).constant() - 1) * meta.strides(d).constant();
    }
    return elements * compiler::ItemSize(meta.dtype());
  }

  const v1::Artifact& artifact_;
  std::vector<int64_t> by_step_;
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_MEMORY_PLANNED_PEAK_H_
