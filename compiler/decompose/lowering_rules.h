// SPDX-License-Identifier: Apache-2.0
// Which nodes become code of ours, and which are left to the library, as far as can be told before
// they are lowered: a lowering itself may still leave a case (Unimplemented).
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWERING_RULES_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWERING_RULES_H_

#include <absl/container/flat_hash_map.h>

#include <string>

#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

class LoweringRules {
 public:
  // `device`: of the tensors that code is generated for; `target`: what it runs on, where that may
  // be another (a graph that is compiled to be looked at).
  LoweringRules(const Graph& graph, v1::DeviceType device, v1::DeviceType target)
      : graph_(graph),
        device_(device),
        target_(target == v1::DEVICE_TYPE_UNSPECIFIED ? device : target) {}

  // The node's lowering; null where there is none on the target, or the job wants a library call.
  const Lowering* LoweringOf(const Node& node) const;
  // Code is generated for one device; anything else is the library's.
  bool CanGenerate(const Node& node) const;
  // A view of what lies on another device: no code, only other strides of memory that is there.
  bool IsViewElsewhere(const Node& node) const;
  // Whether the node reads its arguments from memory by a library call.
  bool MayBeCall(const Node& node) const;

 private:
  bool HasComplexNumbers(const Node& node) const;  // among operands and results
  bool TakesComplexNumbers(const Node& node) const;

  const Graph& graph_;
  const v1::DeviceType device_;
  const v1::DeviceType target_;
};

// Whether an operator takes the types of a node's operands. Eager refuses more than lowerings ask
// about (bits of floats, gelu of integers): where a formula would compute what no scalar operation
// does (the types of ops.def), the graph is refused, and the job runs it in eager, whose own error
// the user sees.
class OperandTypes {
 public:
  OperandTypes(const Graph& graph, v1::DeviceType device, LoweringOptions options)
      : graph_(graph), device_(device), options_(options) {}

  // Lowers the node by itself once for each operator and types, and looks at the loops. True also
  // where the lowering fails, which says why when it is asked for good.
  bool Fit(const Node& node, const Lowering& lowering);

 private:
  bool Try(const Node& node, const Lowering& lowering) const;

  const Graph& graph_;
  const v1::DeviceType device_;
  const LoweringOptions options_;
  absl::flat_hash_map<std::string, bool> known_;  // by operator and types
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWERING_RULES_H_
