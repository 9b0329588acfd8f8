// SPDX-License-Identifier: Apache-2.0
// The scalar function that a few nodes compute from one tensor, element by element.
#ifndef TENSORD_COMPILER_REWRITE_SCALAR_FUNCTION_H_
#define TENSORD_COMPILER_REWRITE_SCALAR_FUNCTION_H_

#include <optional>
#include <set>

#include "compiler/graph/editor.h"
#include "compiler/graph/graph.h"

namespace tensord::compiler {

struct ScalarFunction {
  ValueId argument;     // where it starts: a result of a node that is none of its steps
  std::set<int> nodes;  // its steps
};

// The function that ends in `result`; nothing when that is not made from one value of a node alone
// by the operators known here, or takes very many. Conversions between floating types and changes
// of shape count as nothing: the elements keep their order.
std::optional<ScalarFunction> ScalarFunctionOf(const Graph& graph, ValueId result);

double Evaluate(const Graph& graph, const ScalarFunction& function, ValueId result, double x);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_SCALAR_FUNCTION_H_
