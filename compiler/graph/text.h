// SPDX-License-Identifier: Apache-2.0
// A graph as text, for people.
#ifndef TENSORD_COMPILER_GRAPH_TEXT_H_
#define TENSORD_COMPILER_GRAPH_TEXT_H_

#include <string>

#include "compiler/graph/graph.h"

namespace tensord::compiler {

// A line for each input, constant, node and output:
//
//     %0 = input x: float32[4, 8] strides [8, 1] cpu
//     %1 = aten::add.Tensor(self=%0, other=1.5, alpha=1): float32[4, 8] strides [8, 1] cpu  # add_1
//     return %1
//
// Values have the numbers that nodes name them by; `%3.1` is result 1 of value 3. Nodes that nobody
// needs, which lowering leaves out, say so.
std::string ToString(const Graph& graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_TEXT_H_
