// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lowering_rules.h"

#include <algorithm>

#include "compiler/graph/arguments.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {

const Lowering* LoweringRules::LoweringOf(const Node& node) const {
  const Lowering* lowering =
      HasComplexNumbers(node) ? FindComplexLowering(node.op) : FindLowering(node.op);
  if (lowering == nullptr || !lowering->IsLoweredOn(target_)) return nullptr;
  return node.library && !IsView(node) ? nullptr : lowering;
}

bool LoweringRules::CanGenerate(const Node& node) const {
  for (const TensorType& type : node.outputs) {
    if (type.dtype == v1::DTYPE_UNSPECIFIED) continue;
    if (type.device != device_) return false;
  }
  bool ok = true;
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    const TensorType& type = graph_.TypeOf(ValueOf(arg));
    if (type.device != device_ && !type.sizes.empty()) ok = false;
  });
  return ok;
}

bool LoweringRules::IsViewElsewhere(const Node& node) const {
  return IsView(node) && graph_.TypeOf(ValueOf(FirstArgument(node))).device != device_;
}

bool LoweringRules::HasComplexNumbers(const Node& node) const {
  bool found = std::any_of(node.outputs.begin(), node.outputs.end(),
                           [](const TensorType& type) { return IsComplex(type.dtype); });
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    found = found || IsComplex(graph_.TypeOf(ValueOf(arg)).dtype);
  });
  return found;
}

bool LoweringRules::MayBeCall(const Node& node) const {
  return LoweringOf(node) == nullptr || IsProduct(node);
}

}  // namespace tensord::compiler
