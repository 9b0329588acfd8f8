// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph run, who reads their results, how long each is needed, and in which
// layout.
#ifndef TENSORD_COMPILER_GRAPH_USES_H_
#define TENSORD_COMPILER_GRAPH_USES_H_

#include <map>
#include <optional>
#include <vector>

#include "compiler/graph/graph.h"

namespace tensord::compiler {

// ---- Of a node alone

// Whether the node runs even where nobody reads its results: it writes to an argument, acts besides
// (ActsBesides), or has no results and is no mere fact.
bool HasEffect(const Node& node);
// The arguments whose memory it writes.
std::vector<ValueId> WrittenBy(const Node& node);
// Whether it only looks at its first argument's elements in another order, and kernels of ours read
// through it.
bool IsView(const Node& node);
// A product of matrices or of batches of them: the library takes its operands with any strides.
bool IsProduct(const Node& node);
// Becomes code of ours: its result is stored wherever, and in whatever layout, readers want it.
bool IsGenerated(const Node& node);

// ---- Of the whole

// An index of a graph's edges as they are when it is made. A node runs when something that runs
// reads it, or when it has an effect; only reads by nodes that run count. Values that are added
// later have no readers.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  // False for what earlier rewrites left behind: lowering leaves it out.
  bool Runs(int node) const { return runs_[node]; }
  // How many arguments, and outputs of the graph, are this result.
  int Count(ValueId value) const { return Of(value).count; }
  // The nodes that read it, in order, each once; with the number of nodes when an output does.
  const std::vector<int>& Readers(ValueId value) const { return Of(value).readers; }
  // The last of them, or -1.
  int LastReader(ValueId value) const;

  // The value that `value` is a view of, through any number of views; itself when it is no view.
  ValueId Root(ValueId value) const;
  // Whether a node numbered from `from` up to, and without, `to` writes to the value's memory, by
  // whatever view: a reader must not be moved from one of these places to the other.
  bool IsWrittenBetween(ValueId value, int from, int to) const;
  // Whether the node would read the same operands if it stood where node `place` does, behind it.
  bool ReadsTheSameAt(int node, int place) const;
  // Whether something must see the value with the strides that eager gives it: an output, or a
  // library call other than a product; also through views.
  bool NeedsEagerLayout(ValueId value) const;
  // Whether an output shares the value's memory: it is the value or a view of it.
  bool IsGivenOut(ValueId value) const;
  // Whether the root of `value`, or a view on the way to it, has several readers.
  bool IsRootShared(ValueId value) const;

 private:
  struct Use {
    int count = 0;
    std::vector<int> readers;
  };

  // By value number, by result.
  template <typename T>
  using PerValue = std::vector<std::vector<T>>;

  const Use& Of(ValueId value) const;
  template <typename Condition>
  PerValue<bool> ReadBy(const Condition& condition) const;
  static bool IsTrueOf(const PerValue<bool>& values, ValueId value);
  ValueId MemoryOf(ValueId value) const;

  const Graph& graph_;
  PerValue<Use> uses_;
  std::vector<bool> runs_;      // by node
  std::vector<ValueId> roots_;  // by node: what its results are views of; {-1, -1}: of nothing
  std::map<ValueId, std::vector<int>> writers_;  // by whose memory is written: nodes, in order
  // What the questions of these names are true of, once they are asked.
  mutable std::optional<PerValue<bool>> needs_eager_layout_, given_out_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_USES_H_
