// SPDX-License-Identifier: Apache-2.0
// The graph's verifier: run behind import, where what it finds is the sender's mistake, and behind
// every rewrite, where it is ours.
//
// Checks that
//   - every reference points back, to a result that exists and is present, and to no integer input;
//   - every type has an element type, a device, and as many strides as sizes;
//   - every operator of namespace tensord is known, and no operator writes to an argument but to
//     those of which its schema says so (compiler/ops); what is written is an input or a view of
//     one;
//   - the arguments of operators that have a schema fit it, in number and kind;
//   - outputs are values, integers or none.
#ifndef TENSORD_COMPILER_GRAPH_VERIFY_H_
#define TENSORD_COMPILER_GRAPH_VERIFY_H_

#include "base/status.h"
#include "compiler/graph/graph.h"

namespace tensord::compiler {

// InvalidArgument: "node 'NAME' (aten::op): argument 'dim' must be an integer, but is a tensor".
absl::Status VerifyGraph(const Graph& graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_VERIFY_H_
