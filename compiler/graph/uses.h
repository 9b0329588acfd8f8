// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph run, who reads their results, how long each is needed, and in which
// layout.
#ifndef TENSORD_COMPILER_GRAPH_USES_H_
#define TENSORD_COMPILER_GRAPH_USES_H_

#include <map>
#include <optional>
#include <span>
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
  int Count(ValueId value) const;
  // The nodes that read it, in order, each once; with the number of nodes when an output does.
  std::span<const int> Readers(ValueId value) const;
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
  // Results are numbered through all values. The number of one, or -1.
  int ResultOf(ValueId value) const;
  std::span<const int> ReadersOf(int result) const;
  template <typename Condition>
  std::vector<bool> ReadBy(const Condition& condition) const;
  bool IsTrueOf(const std::vector<bool>& results, ValueId value) const;
  ValueId MemoryOf(ValueId value) const;

  const Graph& graph_;
  std::vector<bool> runs_;         // by node
  std::vector<int> first_result_;  // by value, and behind the last
  std::vector<int> counts_;        // by result
  // Of all results, one after the other; where those of a result begin, and behind the last.
  std::vector<int> readers_, first_reader_;
  // By node: what its results are views of; {-1, -1}: of nothing. Once it is asked for, as those
  // below.
  mutable std::optional<std::vector<ValueId>> roots_;
  // By whose memory is written: nodes, in order.
  mutable std::optional<std::map<ValueId, std::vector<int>>> writers_;
  // By result: whether the question of that name is true of it.
  mutable std::optional<std::vector<bool>> needs_eager_layout_, given_out_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_USES_H_
