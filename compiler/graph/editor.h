// Changing a graph: new nodes in front of old ones, other values for all users of one.
#ifndef TENSORD_COMPILER_GRAPH_EDITOR_H_
#define TENSORD_COMPILER_GRAPH_EDITOR_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace tensord::compiler {

// A result of a value: (value number, which result).
using ValueId = std::pair<int, int>;

// Whether the node runs even where nobody reads its results.
bool HasEffect(const Node& node);

// Calls visit(argument) for every kValue argument, also inside lists.
void ForEachValue(const std::vector<ArgumentValue>& args,
                  const std::function<void(const ArgumentValue&)>& visit);

ArgumentValue ValueArg(ValueId value);
ArgumentValue IntegerArg(const Expr& value);
ArgumentValue BooleanArg(bool value);
ArgumentValue RealArg(double value);
ArgumentValue IntegersArg(const std::vector<Expr>& values);
ArgumentValue NoneArgument();
// A number that is 1.
bool IsOne(const ArgumentValue& arg);

// Collects changes of a graph and carries them out at once. Until then value numbers are those of
// the old graph; added nodes have numbers behind them.
class GraphEditor {
 public:
  explicit GraphEditor(Graph* graph);

  const Graph& graph() const { return *graph_; }
  const Node& node(int index) const { return graph_->nodes[index]; }
  int ValueOfNode(int index) const { return graph_->FirstNodeValue() + index; }
  // The node that makes a value; null for inputs, constants and added nodes.
  const Node* Producer(int value) const;
  const TensorType& TypeOf(ValueId value) const;
  // False for a node that nobody needs; lowering leaves it out.
  bool Runs(int index) const { return runs_[index]; }
  // How many arguments of nodes that run, and outputs of the old graph, are this result.
  int Uses(ValueId value) const;

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
  std::map<ValueId, int> uses_;
  std::vector<bool> runs_;  // by node
  std::vector<Added> added_;
  std::map<ValueId, ValueId> replaced_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_EDITOR_H_
