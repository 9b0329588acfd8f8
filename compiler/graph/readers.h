// Who reads the results of a graph, and in which layout.
#ifndef TENSORD_COMPILER_GRAPH_READERS_H_
#define TENSORD_COMPILER_GRAPH_READERS_H_

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/graph/editor.h"
#include "compiler/graph/graph.h"

namespace tensord::compiler {

// Looks at its argument's elements in another order, without computing.
bool IsViewOperator(const Node& node);
// A product of matrices or of batches of them: the library takes its operands with any strides.
bool IsProduct(const Node& node);
// Becomes code of ours: its result is stored wherever, and in whatever layout, readers want it.
bool IsGenerated(const Node& node);

// An index of a graph's edges as they are when it is made.
class Readers {
 public:
  explicit Readers(const Graph& graph);

  // The nodes that run and read a result, in order, each once; with the number of nodes when an
  // output does.
  const std::vector<int>& Of(ValueId value) const;
  // False for what earlier rewrites left behind: lowering leaves it out.
  bool Runs(int node) const;
  // Whether something must see the value with the strides that eager gives it: an output, or a
  // library call other than a product; also through views.
  bool NeedEagerLayout(ValueId value) const;
  // Whether an output shares the value's memory: it is the value or a view of it.
  bool IsGivenOut(ValueId value) const;
  // The value that `value` is a view of, through any number of views; itself when it is no view.
  // `*shared`: that value, or a view on the way, has other readers.
  ValueId RootOf(ValueId value, bool* shared) const;

 private:
  template <typename Condition>
  std::set<ValueId> ReadBy(const Condition& condition) const;

  const Graph& graph_;
  std::map<ValueId, std::vector<int>> readers_;
  // What the questions of these names are true of, once they are asked.
  mutable std::optional<std::set<ValueId>> need_eager_layout_, given_out_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_READERS_H_
