// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/memory_needs.h"

#include <map>
#include <optional>
#include <vector>

#include "compiler/graph/arguments.h"
#include "compiler/graph/layout.h"

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

// Whether the node's result is its argument's memory, seen as another type.
bool IsReinterpretation(const Node& node) {
  return node.op == "aten::view.dtype" || node.op == "aten::view_as_complex" ||
         node.op == "aten::view_as_real";
}

// By node: what its results show, when they are views or reinterpretations. Reshaping may copy.
std::vector<std::optional<Shown>> MemoryShownByNodes(const Graph& graph) {
  std::vector<std::optional<Shown>> shown(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool reinterprets = IsReinterpretation(node);
    if (!reinterprets && (!IsView(node) || node.op == "aten::reshape")) continue;
    const ValueId of = ValueOf(FirstArgument(node));
    const int maker = of.first - graph.FirstNodeValue();
    shown[i] = maker >= 0 && shown[maker] ? *shown[maker] : Shown{of};
    shown[i]->is_reinterpreted = shown[i]->is_reinterpreted || reinterprets;
  }
  return shown;
}

std::map<ValueId, Shown> ShownByResults(const Graph& graph) {
  // By the value whose memory they show.
  std::map<ValueId, std::map<ValueId, Shown>> results;
  const std::vector<std::optional<Shown>> shown_by = MemoryShownByNodes(graph);
  for (const ArgumentValue& output : graph.outputs) {
    if (!IsValue(output) || ValueOf(output).first < graph.FirstNodeValue()) continue;
    const ValueId value = ValueOf(output);
    const Shown shown = shown_by[value.first - graph.FirstNodeValue()].value_or(Shown{value});
    results[shown.memory].emplace(value, shown);
  }
  std::map<ValueId, Shown> shown_by_results;
  for (const auto& [memory, views] : results) {
    const bool is_input = memory.first < static_cast<int>(graph.inputs.size());
    if (!is_input && memory.first < graph.FirstNodeValue()) continue;  // constants are copied
    const TensorType& type = graph.TypeOf(memory);
    // Offsets count from the start of eager's memory, so it must be all of it.
    const bool is_whole = type.offset.Is(0) && IsDense(type.sizes, type.strides);
    if (!is_input && (views.size() < 2 || !is_whole)) continue;
    for (const auto& [value, shown] : views) {
      if (value == memory || (is_input && shown.is_reinterpreted)) continue;
      shown_by_results.emplace(value, shown);
    }
  }
  return shown_by_results;
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
  std::set<ValueId> in_shapes;
  const auto want_once = [&](const ArgumentValue& arg) {
    const TensorType& type = graph.TypeOf(ValueOf(arg));
    const ValueId root = uses.Root(ValueOf(arg));
    const TensorType& whole = graph.TypeOf(root);
    if (IsExpanded(type) && type.dtype == whole.dtype && ElementsHint(whole) < ElementsHint(type)) {
      in_shapes.insert(root);
    }
  };
  ForEachValue(graph.outputs, want);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (uses.Runs(static_cast<int>(i)) && rules.MayBeCall(graph.nodes[i])) {
      ForEachValue(graph.nodes[i].args, want);
      ForEachValue(graph.nodes[i].args, want_once);
    }
  }
  for (const auto& [root, wanted] : shapes) {
    if (wanted.size() > 1) in_shapes.insert(root);
  }
  return in_shapes;
}

}  // namespace

MemoryNeeds FindMemoryNeeds(const Graph& graph, const Uses& uses, const LoweringRules& rules) {
  MemoryNeeds needs{.shared = SharedByOutputs(graph, uses),
                    .in_shapes = InSeveralShapes(graph, uses, rules),
                    .shown = ShownByResults(graph)};
  for (const auto& [value, shown] : needs.shown) {
    if (shown.memory.first >= graph.FirstNodeValue()) needs.shared.insert(shown.memory);
  }
  return needs;
}

}  // namespace tensord::compiler
