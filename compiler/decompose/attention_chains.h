// SPDX-License-Identifier: Apache-2.0
// Chains of attention's operators (compiler/ops/attention.cc) that one kernel computes: products,
// what is computed of every score, and what is made of that.
#ifndef TENSORD_COMPILER_DECOMPOSE_ATTENTION_CHAINS_H_
#define TENSORD_COMPILER_DECOMPOSE_ATTENTION_CHAINS_H_

#include <vector>

#include "compiler/decompose/lowering_rules.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

// Elements that kernels of attention copy at once: rows begin at multiples of them.
inline constexpr int kAttentionCopy = 8;

class AttentionChains {
 public:
  // `on_chip`: whether the target has kernels of them at all.
  AttentionChains(const Graph& graph, const Uses& uses, const LoweringRules& rules, bool on_chip);

  // Whether the node is one of attention's operators in a chain that is one kernel; others are the
  // job's.
  bool IsLowered(int node) const { return lowered_[node]; }
  // Whether a result is read by such a chain alone, so that it never has memory.
  bool StaysLazy(int node) const { return lazy_[node]; }

 private:
  std::vector<bool> lowered_, lazy_;  // by node
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_ATTENTION_CHAINS_H_
