#include "compiler/graph/editor.h"

#include <map>

#include "base/check.h"
#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

void EditValues(std::vector<ArgumentValue>* args, const std::function<void(ArgumentValue*)>& edit) {
  for (ArgumentValue& arg : *args) {
    if (arg.kind == ArgumentValue::kValue) edit(&arg);
    EditValues(&arg.items, edit);
  }
}

}  // namespace

bool HasEffect(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return (op != nullptr && op->mutates_first) || IsRandomOperator(node.op) ||
         (node.outputs.empty() && !IsIgnoredOperator(node.op));
}

void ForEachValue(const std::vector<ArgumentValue>& args,
                  const std::function<void(const ArgumentValue&)>& visit) {
  for (const ArgumentValue& arg : args) {
    if (arg.kind == ArgumentValue::kValue) visit(arg);
    ForEachValue(arg.items, visit);
  }
}

ArgumentValue ValueArg(ValueId value) {
  return {.kind = ArgumentValue::kValue, .value = value.first, .output = value.second};
}
ArgumentValue IntegerArg(const Expr& value) {
  return {.kind = ArgumentValue::kInteger, .integer = value};
}
ArgumentValue BooleanArg(bool value) {
  return {.kind = ArgumentValue::kBoolean, .integer = Expr(value ? 1 : 0)};
}
ArgumentValue RealArg(double value) { return {.kind = ArgumentValue::kReal, .real = value}; }
ArgumentValue IntegersArg(const std::vector<Expr>& values) {
  ArgumentValue list{.kind = ArgumentValue::kList};
  for (const Expr& value : values) list.items.push_back(IntegerArg(value));
  return list;
}
ArgumentValue NoneArgument() { return {}; }

bool IsOne(const ArgumentValue& arg) {
  return (arg.kind == ArgumentValue::kInteger && arg.integer.Is(1)) ||
         (arg.kind == ArgumentValue::kReal && arg.real == 1);
}

GraphEditor::GraphEditor(Graph* graph) : graph_(graph), runs_(graph->nodes.size()) {
  const auto count = [this](const ArgumentValue& arg) { ++uses_[{arg.value, arg.output}]; };
  ForEachValue(graph->outputs, count);
  for (int i = static_cast<int>(graph->nodes.size()) - 1; i >= 0; --i) {
    const Node& node = graph->nodes[i];
    const auto result = uses_.lower_bound({ValueOfNode(i), 0});
    const bool is_read = result != uses_.end() && result->first.first == ValueOfNode(i);
    runs_[i] = is_read || HasEffect(node);
    if (runs_[i]) ForEachValue(node.args, count);
  }
}

const Node* GraphEditor::Producer(int value) const {
  const int node = value - graph_->FirstNodeValue();
  return node >= 0 && node < static_cast<int>(graph_->nodes.size()) ? &graph_->nodes[node]
                                                                    : nullptr;
}

const TensorType& GraphEditor::TypeOf(ValueId value) const {
  const int added = value.first - FirstAdded();
  return added >= 0 ? added_[added].node.outputs[value.second]
                    : graph_->TypeOf(value.first, value.second);
}

int GraphEditor::Uses(ValueId value) const {
  const auto it = uses_.find(value);
  return it == uses_.end() ? 0 : it->second;
}

ValueId GraphEditor::Insert(int before, Node node) {
  TENSORD_CHECK(before >= 0 && before <= static_cast<int>(graph_->nodes.size()),
                "no such place in the graph");
  added_.push_back({before, std::move(node)});
  return {FirstAdded() + static_cast<int>(added_.size()) - 1, 0};
}

void GraphEditor::Replace(ValueId old, ValueId with) { replaced_[old] = with; }

int GraphEditor::Finish() {
  if (added_.empty() && replaced_.empty()) return 0;
  const int first = graph_->FirstNodeValue(), old_nodes = static_cast<int>(graph_->nodes.size());
  std::map<int, int> number;  // old or temporary -> new
  std::vector<Node> nodes;
  std::vector<bool> is_new;
  std::multimap<int, int> places;
  for (int a = 0; a < static_cast<int>(added_.size()); ++a) places.emplace(added_[a].before, a);
  const auto place = [&](Node node, int value, bool added) {
    number[value] = first + static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
    is_new.push_back(added);
  };
  for (int i = 0; i <= old_nodes; ++i) {
    const auto [begin, end] = places.equal_range(i);
    for (auto it = begin; it != end; ++it) {
      place(std::move(added_[it->second].node), FirstAdded() + it->second, true);
    }
    if (i < old_nodes) place(std::move(graph_->nodes[i]), first + i, false);
  }
  const auto renumber = [&](bool follow) {
    return [&, follow](ArgumentValue* arg) {
      ValueId value(arg->value, arg->output);
      for (auto it = replaced_.find(value); follow && it != replaced_.end();
           it = replaced_.find(value)) {
        value = it->second;
      }
      const auto it = number.find(value.first);
      arg->value = it == number.end() ? value.first : it->second;
      arg->output = value.second;
    };
  };
  for (size_t i = 0; i < nodes.size(); ++i) EditValues(&nodes[i].args, renumber(!is_new[i]));
  EditValues(&graph_->outputs, renumber(true));
  graph_->nodes = std::move(nodes);
  return static_cast<int>(replaced_.size());
}

}  // namespace tensord::compiler
