#include "compiler/graph/uses.h"

#include <algorithm>

#include "compiler/graph/arguments.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {

bool HasEffect(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return WritesArgument(op) || HasTrait(op, kDrawsRandomNumbers) ||
         (node.outputs.empty() && !HasTrait(op, kNoEffect));
}

bool IsView(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return IsOfKind(op, OperatorKind::kView) && op->IsLowered() && !node.args.empty() &&
         IsValue(FirstArgument(node));
}

bool IsProduct(const Node& node) { return IsOfKind(FindOperator(node.op), OperatorKind::kProduct); }

bool IsGenerated(const Node& node) { return IsLowered(FindOperator(node.op)) && !IsProduct(node); }

ValueId RootOf(const Graph& graph, ValueId value) {
  while (value.first >= graph.FirstNodeValue()) {
    const Node& node = graph.nodes[value.first - graph.FirstNodeValue()];
    if (!IsView(node)) break;
    value = ValueOf(FirstArgument(node));
  }
  return value;
}

Uses::Uses(const Graph& graph)
    : graph_(graph),
      uses_(graph.FirstNodeValue() + graph.nodes.size()),
      runs_(graph.nodes.size(), false) {
  const int first = graph.FirstNodeValue(), nodes = static_cast<int>(graph.nodes.size());
  for (int v = 0; v < static_cast<int>(uses_.size()); ++v) {
    uses_[v].resize(v < first ? 1 : graph.nodes[v - first].outputs.size());
  }
  const auto read_by = [&](int reader) {
    return [&, reader](const ArgumentValue& arg) {
      Use& use = uses_[arg.value][arg.output];
      ++use.count;
      // Backwards here; turned round below.
      if (use.readers.empty() || use.readers.back() != reader) use.readers.push_back(reader);
      if (arg.value >= first) runs_[arg.value - first] = true;
    };
  };
  ForEachValue(graph.outputs, read_by(nodes));
  for (int i = nodes - 1; i >= 0; --i) {
    if (HasEffect(graph.nodes[i])) runs_[i] = true;
    if (runs_[i]) ForEachValue(graph.nodes[i].args, read_by(i));
  }
  for (std::vector<Use>& of_value : uses_) {
    for (Use& use : of_value) std::reverse(use.readers.begin(), use.readers.end());
  }
}

const Uses::Use& Uses::Of(ValueId value) const {
  static const Use* const none = new Use;
  const auto [number, result] = value;
  if (number >= static_cast<int>(uses_.size())) return *none;
  return result < static_cast<int>(uses_[number].size()) ? uses_[number][result] : *none;
}

int Uses::LastReader(ValueId value) const {
  const std::vector<int>& readers = Readers(value);
  return readers.empty() ? -1 : readers.back();
}

// Whether an output, or a node that fulfils the condition, reads the value or a view of it.
template <typename Condition>
bool Uses::AnyReader(ValueId value, const Condition& condition) const {
  const std::vector<int>& readers = Readers(value);
  return std::any_of(readers.begin(), readers.end(), [&](int reader) {
    if (reader == static_cast<int>(graph_.nodes.size())) return true;
    const Node& node = graph_.nodes[reader];
    if (!IsView(node)) return condition(node);
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) {
      if (AnyReader({graph_.FirstNodeValue() + reader, o}, condition)) return true;
    }
    return false;
  });
}

bool Uses::NeedsEagerLayout(ValueId value) const {
  return AnyReader(value, [](const Node& node) { return !IsGenerated(node) && !IsProduct(node); });
}

bool Uses::IsGivenOut(ValueId value) const {
  return AnyReader(value, [](const Node&) { return false; });
}

bool Uses::IsRootShared(ValueId value) const {
  while (value.first >= graph_.FirstNodeValue()) {
    const Node& node = graph_.nodes[value.first - graph_.FirstNodeValue()];
    if (!IsView(node)) break;
    value = ValueOf(FirstArgument(node));
    if (Readers(value).size() > 1) return true;
  }
  return false;
}

}  // namespace tensord::compiler
