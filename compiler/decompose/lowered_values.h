// SPDX-License-Identifier: Apache-2.0
// The values of a graph while it is lowered, and how they come into memory.
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWERED_VALUES_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWERED_VALUES_H_

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "compiler/decompose/body_reads.h"
#include "compiler/decompose/lowering.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

class LoweredValues {
 public:
  // Inputs and constants are there. `in_shapes`: of MemoryNeeds. `uses` of the graph outlive this.
  LoweredValues(const Graph& graph, const Uses& uses, Builder* builder,
                std::set<ValueId> in_shapes);

  Tensor& operator[](ValueId value) { return values_[value.first][value.second]; }
  std::span<const std::vector<Tensor>> all() const { return values_; }
  void SetResults(int node, std::vector<Tensor> results);

  // The call as its lowering sees it.
  Call CallOf(const Node& node) const { return Call(graph_, node, values_); }

  // Prepares a value that will be in memory. If it is a view of a value that is wanted in several
  // shapes, that value is realized first and this becomes a view of it.
  Tensor& InShape(ValueId value);
  // In memory, once for all that read it.
  void Realize(ValueId value);
  // The longest chain of lazy values that ends in this node's arguments.
  int ChainBefore(const Node& node) const;

  // Before node number `node` writes to its argument `target`: lazy values that read what it
  // writes, and that are read by it or later, are computed. InvalidArgument where no input is
  // written.
  absl::Status PrepareWrite(int node, ValueId target);
  // Whether eager gives this value memory of its own; a lowering may still have found nothing to do
  // and have handed on its argument (a dropout that is off).
  bool IsCopyInEager(int value) const;

 private:
  void TakeView(ValueId value, ValueId root);
  // Whether a write to an input may change it: a lazy value that reads the input, or a view of it
  // that should be a copy.
  bool MaySeeWrites(ValueId value) const;
  bool ReadsOnlyWhereItWrites(const Node& node, int source, const Tensor& destination,
                              const BodyReads& reads) const;
  const BodyReads& CachedReads(ValueId value, const Tensor& t);

  const Graph& graph_;
  const Uses& uses_;
  Builder& builder_;
  const std::set<ValueId> in_shapes_;
  std::vector<std::vector<Tensor>> values_;  // by value number, by result
  std::vector<int> chains_;       // by value number: how many lazy values stand behind it, at most
  std::vector<ValueId> waiting_;  // in order: what may see writes, until it is read
  std::map<ValueId, BodyReads> reads_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWERED_VALUES_H_
