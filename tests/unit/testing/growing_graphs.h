// SPDX-License-Identifier: Apache-2.0
// Graphs of any number of nodes, in the shapes in which graphs grow.
#ifndef TENSORD_TESTS_UNIT_TESTING_GROWING_GRAPHS_H_
#define TENSORD_TESTS_UNIT_TESTING_GROWING_GRAPHS_H_

#include <string>
#include <vector>

#include "tensord/v1/graph.pb.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::testing {

// A graph of about `nodes` nodes on a device, all tensors float32.
struct GrowingGraph {
  const char* name;
  v1::Graph (*make)(int nodes, v1::DeviceType device);
};

// A chain of pointwise operators, independent operators ("wide"), a concatenation of many,
// one that is split again, reductions of one tensor, views of views, equal transformer layers, an
// unrolled LSTM.
const std::vector<GrowingGraph>& GrowingGraphs();

// The job that compiles such a graph for a CPU with AVX2 or, with `cuda`, for a GPU of compute
// capability 9.0.
v1::CompileJob GrowingJob(const GrowingGraph& graph, int nodes, bool cuda);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_GROWING_GRAPHS_H_
