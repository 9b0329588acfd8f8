// SPDX-License-Identifier: Apache-2.0
// For tests of passes over convolutions: graphs before and after, run by the interpreter with
// convolutions and products in plain loops.
#ifndef TENSORD_TESTS_UNIT_TESTING_REWRITE_TESTING_H_
#define TENSORD_TESTS_UNIT_TESTING_REWRITE_TESTING_H_

#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/rewrite/rewrite.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {

// Channels-last strides of [N, C, H, W].
Shape ChannelsLast(const Shape& sizes);

compiler::Graph Imported(GraphBuilder& g);
v1::Target CudaTarget();

// All rewrites for a target, in order, each of which must leave a sound graph. Gives "PASS: COUNT"
// for each that changed something.
std::vector<std::string> RunRewrites(const v1::Target& target, compiler::Graph* graph);

// The operators that the outputs need, in order.
std::vector<std::string> OpsOf(const compiler::Graph& graph);
// The last node of that operator that the outputs need; none is an error.
const compiler::Node& NodeOf(const compiler::Graph& graph, const std::string& op);

// Inputs of small numbers, other ones for every input and place. Variances and weights of batch
// norms must be positive: inputs whose name is in `positive`.
std::vector<HostTensor> SomeInputs(const compiler::Graph& graph,
                                   const std::vector<int>& positive = {});

// The graph's outputs. Library calls may be convolutions, cuDNN's fused forms of them, products.
std::vector<HostTensor> RunGraph(const compiler::Graph& graph, std::vector<HostTensor> inputs);

// The same outputs up to `tolerance` of their largest element, of the same strides.
void ExpectSameResults(const compiler::Graph& before, const compiler::Graph& after,
                       const std::vector<HostTensor>& inputs, double tolerance);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_REWRITE_TESTING_H_
