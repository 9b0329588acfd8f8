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

// The values that an output, or a node that fulfils the condition, reads, or a view of them.
template <typename Condition>
std::set<ValueId> Readers::ReadBy(const Condition& condition) const {
  std::set<ValueId> read;
  // Views have greater numbers than what they are views of.
  for (auto it = readers_.rbegin(); it != readers_.rend(); ++it) {
    const bool is_read = std::any_of(it->second.begin(), it->second.end(), [&](int reader) {
      if (reader == static_cast<int>(graph_.nodes.size())) return true;
      const Node& node = graph_.nodes[reader];
      if (!IsViewOperator(node)) return condition(node);
      const int view = graph_.FirstNodeValue() + reader;
      const auto first = read.lower_bound({view, 0});
      return first != read.end() && first->first == view;
    });
    if (is_read) read.insert(it->first);
  }
  return read;
}

bool Readers::NeedEagerLayout(ValueId value) const {
  if (!need_eager_layout_) {
    need_eager_layout_ =
        ReadBy([](const Node& node) { return !IsGenerated(node) && !IsProduct(node); });
  }
  return need_eager_layout_->count(value) != 0;
}

bool Readers::IsGivenOut(ValueId value) const {
  if (!given_out_) given_out_ = ReadBy([](const Node&) { return false; });
  return given_out_->count(value) != 0;
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
