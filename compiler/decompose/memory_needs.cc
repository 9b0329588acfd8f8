// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/memory_needs.h"

#include <map>

#include "compiler/graph/arguments.h"

namespace tensord::compiler {
namespace {

std::set<ValueId> SharedByOutputs(const Graph& graph, const Uses& uses) {
  std::map<ValueId, int> views;
  for (const ArgumentValue& output : graph.outputs) {
    if (IsValue(output)) ++views[uses.Root(ValueOf(output))];
  }
  std::set<ValueId> shared;
  for (const auto& [root, count] : views) {
    if (count > 1) shared.insert(root);
  }
  return shared;
}

std::set<ValueId> InSeveralShapes(const Graph& graph, const Uses& uses,
                                  const LoweringRules& rules) {
  std::map<ValueId, std::set<ValueId>> shapes;
  const auto want = [&](const ArgumentValue& arg) {
    const ValueId value = ValueOf(arg), root = uses.Root(value);
    const TensorType &type = graph.TypeOf(value), &whole = graph.TypeOf(root);
    if (type.dtype == whole.dtype && sym::Product(type.sizes) == sym::Product(whole.sizes)) {
      shapes[root].insert(value);
    }
  };
  ForEachValue(graph.outputs, want);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (uses.Runs(static_cast<int>(i)) && rules.MayBeCall(graph.nodes[i])) {
      ForEachValue(graph.nodes[i].args, want);
    }
  }
  std::set<ValueId> in_shapes;
  for (const auto& [root, wanted] : shapes) {
    if (wanted.size() > 1) in_shapes.insert(root);
  }
  return in_shapes;
}

}  // namespace

MemoryNeeds FindMemoryNeeds(const Graph& graph, const Uses& uses, const LoweringRules& rules) {
  return {.shared = SharedByOutputs(graph, uses), .in_shapes = InSeveralShapes(graph, uses, rules)};
}

}  // namespace tensord::compiler
