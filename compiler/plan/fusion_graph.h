// SPDX-License-Identifier: Apache-2.0
// What runs in a program as a graph for people: steps, the captured nodes that they came from with
// their lines of the model, and what steps share that are not one kernel.
#ifndef TENSORD_COMPILER_PLAN_FUSION_GRAPH_H_
#define TENSORD_COMPILER_PLAN_FUSION_GRAPH_H_

#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/compile.pb.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::compiler {

// `captured`: the graph as it came. `kernels[i]` belongs to step i of the schedule, whose plan is
// `artifact` (EmitPlan). Of every two steps of which the second reads what the first wrote last
// there is an edge, and of those that only read the same where fusing them was tried.
v1::FusionGraph ToFusionGraph(const v1::Graph& captured, const Program& program,
                              const Schedule& schedule, const std::vector<KernelSource>& kernels,
                              const v1::Artifact& artifact);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PLAN_FUSION_GRAPH_H_
