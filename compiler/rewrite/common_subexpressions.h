// SPDX-License-Identifier: Apache-2.0
// Equal computations run once.
//
// Ensures: of several nodes that run the same pure operator on the same arguments the first stays:
// the casts of a weight that autocast makes for each of its uses, above all. What is given out
// keeps memory of its own. Should come first: later passes see one value where there is one.
#ifndef TENSORD_COMPILER_REWRITE_COMMON_SUBEXPRESSIONS_H_
#define TENSORD_COMPILER_REWRITE_COMMON_SUBEXPRESSIONS_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of nodes that became superfluous.
int CommonSubexpressions(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_COMMON_SUBEXPRESSIONS_H_
