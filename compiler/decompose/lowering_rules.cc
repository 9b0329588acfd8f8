// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lowering_rules.h"

#include "compiler/graph/arguments.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

const Lowering* LoweringRules::LoweringOf(const Node& node) const {
  const Lowering* lowering = FindLowering(node.op);
  if (lowering == nullptr || !lowering->IsLoweredOn(target_)) return nullptr;
  return node.library && !IsView(node) ? nullptr : lowering;
}

bool LoweringRules::CanGenerate(const Node& node) const {
  // A view computes nothing, whatever its elements are.
  const bool may_be_complex = IsView(node) && node.op != "aten::view.dtype";
  for (const TensorType& type : node.outputs) {
    if (type.dtype == v1::DTYPE_UNSPECIFIED) continue;
    if (type.device != device_ || (IsComplex(type.dtype) && !may_be_complex)) return false;
  }
  bool ok = true;
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    const TensorType& type = graph_.TypeOf(ValueOf(arg));
    if (IsComplex(type.dtype) && !may_be_complex) ok = false;
    if (type.device != device_ && !type.sizes.empty()) ok = false;
  });
  return ok;
}

bool LoweringRules::MayBeCall(const Node& node) const {
  return LoweringOf(node) == nullptr || IsProduct(node);
}

}  // namespace tensord::compiler
