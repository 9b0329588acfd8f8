// SPDX-License-Identifier: Apache-2.0
// The scheduled program: kernels and extern calls in the order in which they run.
#ifndef TENSORD_COMPILER_SCHEDULE_SCHEDULE_H_
#define TENSORD_COMPILER_SCHEDULE_SCHEDULE_H_

#include <string>
#include <variant>
#include <vector>

#include "compiler/schedule/fuse.h"

namespace tensord::compiler {

// One launch: nests that do not depend on each other.
struct Kernel {
  std::vector<Nest> nests;
};

struct ScheduledStep {
  std::variant<Kernel, int> work;  // a kernel, or the operation of an extern call
};

struct Schedule {
  std::vector<ScheduledStep> steps;
  std::vector<std::string> notes;
  std::vector<Rejection> rejections;  // of groups that are in different steps, by these
  FusionWork work;
};

// Requires: normalized loops. Nests that do not depend on each other share launches, also with
// earlier steps (DeviceTraits bounds how far).
// `released`: by input, whether its memory goes when the call needs it no more.
Schedule MakeSchedule(const Program& program, const DeviceTraits& device = {},
                      const std::vector<bool>& released = {});

// The call of a step that a kernel of ours computes (ExternOp::attention); null of other steps.
const ExternOp* AttentionOf(const Program& program, const ScheduledStep& step);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_SCHEDULE_H_
