// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/editor.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tensord::compiler {
const Node* GraphEditor::Producer(int value) const {
  const int node = value - graph_->FirstNodeValue();
  return node >= 0 && node < static_cast<int>(graph_->nodes.size()) ? &graph_->nodes[node]
                                                                    : nullptr;
}

bool GraphEditor::MayRewrite(int index) const {
  if (!uses().Runs(index)) return false;
  if (!device_) device_ = DeviceOf(*graph_);
  return std::ranges::all_of(node(index).outputs, [&](const TensorType& type) {
    return type.dtype == v1::DTYPE_UNSPECIFIED || type.device == *device_;
  });
}

const TensorType& GraphEditor::TypeOf(ValueId value) const {
  const int added = value.first - FirstAdded();
  return added >= 0 ? added_[added].node.outputs[value.second]
                    : graph_->TypeOf(value.first, value.second);
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
  for (size_t i = 0; i < nodes.size(); ++i) ForEachValue(&nodes[i].args, renumber(!is_new[i]));
  ForEachValue(&graph_->outputs, renumber(true));
  graph_->nodes = std::move(nodes);
  return static_cast<int>(replaced_.size());
}

}  // namespace tensord::compiler
