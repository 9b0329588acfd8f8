// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/uses.h"

#include <algorithm>

#include "compiler/graph/arguments.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {

bool HasEffect(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return WritesArgument(op) || ActsBesides(op) ||
         (node.outputs.empty() && !HasTrait(op, kNoEffect));
}

std::vector<ValueId> WrittenBy(const Node& node) {
  const Operator* op = FindOperator(node.op);
  std::vector<ValueId> written;
  if (!WritesArgument(op)) return written;
  ForEachValue({node.args[op->written]},
               [&](const ArgumentValue& arg) { written.push_back(ValueOf(arg)); });
  return written;
}

bool IsView(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return IsOfKind(op, OperatorKind::kView) && op->IsLowered() && !node.args.empty() &&
         IsValue(FirstArgument(node));
}

bool IsProduct(const Node& node) { return IsOfKind(FindOperator(node.op), OperatorKind::kProduct); }

bool IsGenerated(const Node& node) { return IsLowered(FindOperator(node.op)) && !IsProduct(node); }

Uses::Uses(const Graph& graph)
    : graph_(graph),
      uses_(graph.FirstNodeValue() + graph.nodes.size()),
      runs_(graph.nodes.size(), false),
      roots_(graph.nodes.size(), {-1, -1}) {
  const int first = graph.FirstNodeValue(), nodes = static_cast<int>(graph.nodes.size());
  for (int v = 0; v < static_cast<int>(uses_.size()); ++v) {
    uses_[v].resize(v < first ? 1 : graph.nodes[v - first].outputs.size());
  }
  for (int i = 0; i < nodes; ++i) {
    if (IsView(graph.nodes[i])) roots_[i] = Root(ValueOf(FirstArgument(graph.nodes[i])));
    for (const ValueId& written : WrittenBy(graph.nodes[i])) {
      writers_[MemoryOf(written)].push_back(i);
    }
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

ValueId Uses::Root(ValueId value) const {
  const int node = value.first - graph_.FirstNodeValue();
  const bool is_view =
      node >= 0 && node < static_cast<int>(roots_.size()) && roots_[node].first >= 0;
  return is_view ? roots_[node] : value;
}

// The root, or what that is the written argument of: a copy gives what it has written.
ValueId Uses::MemoryOf(ValueId value) const {
  for (;;) {
    value = Root(value);
    const int node = value.first - graph_.FirstNodeValue();
    if (node < 0 || node >= static_cast<int>(graph_.nodes.size())) return value;
    const Operator* op = FindOperator(graph_.nodes[node].op);
    if (!WritesArgument(op) || !IsValue(graph_.nodes[node].args[op->written])) return value;
    value = ValueOf(graph_.nodes[node].args[op->written]);
  }
}

bool Uses::IsWrittenBetween(ValueId value, int from, int to) const {
  if (writers_.empty()) return false;
  const auto writers = writers_.find(MemoryOf(value));
  if (writers == writers_.end()) return false;
  const auto next = std::lower_bound(writers->second.begin(), writers->second.end(), from);
  return next != writers->second.end() && *next < to;
}

bool Uses::ReadsTheSameAt(int node, int place) const {
  bool same = true;
  ForEachValue(graph_.nodes[node].args, [&](const ArgumentValue& arg) {
    same = same && !IsWrittenBetween(ValueOf(arg), node, place);
  });
  return same;
}

// The values that an output, or a node that fulfils the condition, reads, or a view of them.
template <typename Condition>
Uses::PerValue<bool> Uses::ReadBy(const Condition& condition) const {
  PerValue<bool> read(uses_.size());
  const int first = graph_.FirstNodeValue();
  const auto is_read = [&](int reader) {
    if (reader == static_cast<int>(graph_.nodes.size())) return true;
    const Node& node = graph_.nodes[reader];
    if (!IsView(node)) return condition(node);
    const std::vector<bool>& views = read[first + reader];
    return std::find(views.begin(), views.end(), true) != views.end();
  };
  // Views have greater numbers than what they are views of.
  for (int v = static_cast<int>(uses_.size()) - 1; v >= 0; --v) {
    for (const Use& use : uses_[v]) {
      read[v].push_back(std::any_of(use.readers.begin(), use.readers.end(), is_read));
    }
  }
  return read;
}

bool Uses::IsTrueOf(const PerValue<bool>& values, ValueId value) {
  const auto [number, result] = value;
  return number < static_cast<int>(values.size()) &&
         result < static_cast<int>(values[number].size()) && values[number][result];
}

bool Uses::NeedsEagerLayout(ValueId value) const {
  if (!needs_eager_layout_) {
    needs_eager_layout_ =
        ReadBy([](const Node& node) { return !IsGenerated(node) && !IsProduct(node); });
  }
  return IsTrueOf(*needs_eager_layout_, value);
}

bool Uses::IsGivenOut(ValueId value) const {
  if (!given_out_) given_out_ = ReadBy([](const Node&) { return false; });
  return IsTrueOf(*given_out_, value);
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
