// SPDX-License-Identifier: Apache-2.0
// What each stage of a compile has made, as text for people: `tensorctl compile --dump-after`.
#ifndef TENSORD_COMPILER_DUMP_H_
#define TENSORD_COMPILER_DUMP_H_

#include <string>

#include "compiler/pipeline.h"

namespace tensord::compiler {

std::string DumpGraph(const CompileState& state);
std::string DumpProgram(const CompileState& state);
// Steps in order: launches with their nests, and library calls.
std::string DumpSchedule(const CompileState& state);
// The plans of each kernel's nests: who does what.
std::string DumpKernelPlans(const CompileState& state);
// Each kernel as IR and as source, with the nodes that it came from.
std::string DumpKernels(const CompileState& state);
// A line for each buffer that is in memory.
std::string DumpMemory(const CompileState& state);
// The launch plan, a line for each buffer and step.
std::string DumpPlan(const CompileState& state);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DUMP_H_
