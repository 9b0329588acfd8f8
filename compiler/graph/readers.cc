#include "compiler/graph/readers.h"

#include <algorithm>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

bool IsIn(std::span<const Operator> table, const Operator* op) {
  return op != nullptr && op >= table.data() && op < table.data() + table.size();
}

}  // namespace

bool IsViewOperator(const Node& node) {
  return IsIn(ViewOperators(), FindOperator(node.op)) && !node.args.empty() &&
         node.args[0].kind == ArgumentValue::kValue;
}

bool IsProduct(const Node& node) { return IsIn(MatrixOperators(), FindOperator(node.op)); }

bool IsGenerated(const Node& node) { return FindOperator(node.op) != nullptr && !IsProduct(node); }

Readers::Readers(const Graph& graph) : graph_(graph) {
  const auto reads = [&](int reader) {
    return [this, reader](const ArgumentValue& arg) {
      std::vector<int>& of = readers_[{arg.value, arg.output}];
      if (of.empty() || of.back() != reader) of.push_back(reader);
    };
  };
  const int nodes = static_cast<int>(graph.nodes.size());
  ForEachValue(graph.outputs, reads(nodes));
  for (int i = nodes - 1; i >= 0; --i) {
    if (Runs(i)) ForEachValue(graph.nodes[i].args, reads(i));
  }
  for (auto& [value, of] : readers_) std::reverse(of.begin(), of.end());
}

bool Readers::Runs(int node) const {
  const auto first = readers_.lower_bound({graph_.FirstNodeValue() + node, 0});
  const bool is_read =
      first != readers_.end() && first->first.first == graph_.FirstNodeValue() + node;
  return is_read || HasEffect(graph_.nodes[node]);
}

const std::vector<int>& Readers::Of(ValueId value) const {
  static const std::vector<int>* const none = new std::vector<int>;
  const auto it = readers_.find(value);
  return it == readers_.end() ? *none : it->second;
}

// Whether an output, or a node that fulfils the condition, reads the value or a view of it.
template <typename Condition>
bool Readers::AnyReader(ValueId value, const Condition& condition) const {
  return std::any_of(Of(value).begin(), Of(value).end(), [&](int reader) {
    if (reader == static_cast<int>(graph_.nodes.size())) return true;
    const Node& node = graph_.nodes[reader];
    if (!IsViewOperator(node)) return condition(node);
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) {
      if (AnyReader({graph_.FirstNodeValue() + reader, o}, condition)) return true;
    }
    return false;
  });
}

bool Readers::NeedEagerLayout(ValueId value) const {
  return AnyReader(value, [](const Node& node) { return !IsGenerated(node) && !IsProduct(node); });
}

bool Readers::IsGivenOut(ValueId value) const {
  return AnyReader(value, [](const Node&) { return false; });
}

ValueId Readers::RootOf(ValueId value, bool* shared) const {
  *shared = false;
  while (value.first >= graph_.FirstNodeValue()) {
    const Node& node = graph_.nodes[value.first - graph_.FirstNodeValue()];
    if (!IsViewOperator(node)) break;
    value = {node.args[0].value, node.args[0].output};
    if (Of(value).size() > 1) *shared = true;
  }
  return value;
}

}  // namespace tensord::compiler
