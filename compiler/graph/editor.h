// SPDX-License-Identifier: Apache-2.0
// Changing a graph: new nodes in front of old ones, other values for all users of one.
#ifndef TENSORD_COMPILER_GRAPH_EDITOR_H_
#define TENSORD_COMPILER_GRAPH_EDITOR_H_

#include <map>
#include <optional>
#include <vector>

#include "compiler/graph/arguments.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

// Collects changes of a graph and carries them out at once. Until then value numbers are those of
// the old graph; added nodes have numbers behind them.
class GraphEditor {
 public:
  explicit GraphEditor(Graph* graph) : graph_(graph) {}

  const Graph& graph() const { return *graph_; }
  const Node& node(int index) const { return graph_->nodes[index]; }
  int ValueOfNode(int index) const { return graph_->FirstNodeValue() + index; }
  int NodeOfValue(int value) const { return value - graph_->FirstNodeValue(); }
  // The node that makes a value; null for inputs, constants and added nodes.
  const Node* Producer(int value) const;
  const TensorType& TypeOf(ValueId value) const;
  // Of the old graph, as it is when they are first asked for: most rewrites find no operator of
  // theirs in a graph, and need none. Who changes nodes in place asks before.
  const Uses& uses() const { return uses_ ? *uses_ : uses_.emplace(*graph_); }
  // Whether the node runs, and where code is generated: what a rewrite puts in its place may exist
  // only there.
  bool MayRewrite(int index) const;

  // Adds a node that runs directly before the old node number `before`, behind what was added there
  // earlier; gives its first result.
  ValueId Insert(int before, Node node);
  // The old nodes and the outputs get `with` instead of `old`; added nodes keep what they name.
  void Replace(ValueId old, ValueId with);
  // Carries everything out; gives the number of replacements. Nodes that nobody uses any more stay:
  // lowering leaves them out.
  int Finish();

 private:
  struct Added {
    int before;
    Node node;
  };
  int FirstAdded() const {
    return graph_->FirstNodeValue() + static_cast<int>(graph_->nodes.size());
  }

  Graph* graph_;
  mutable std::optional<Uses> uses_;
  mutable std::optional<v1::DeviceType> device_;  // of the old graph, as uses_
  std::vector<Added> added_;
  std::map<ValueId, ValueId> replaced_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_EDITOR_H_
