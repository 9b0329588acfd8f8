// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lowering_rules.h"

#include <algorithm>
#include <vector>

#include "compiler/graph/arguments.h"
#include "compiler/graph/uses.h"

namespace tensord::compiler {
namespace {

void AppendTypes(const Graph& graph, const std::vector<ArgumentValue>& args, std::string* key) {
  for (const ArgumentValue& arg : args) {
    key->push_back(static_cast<char>('a' + arg.kind));
    if (IsValue(arg)) key->push_back(static_cast<char>('A' + graph.TypeOf(ValueOf(arg)).dtype));
    if (arg.kind == ArgumentValue::kDType) key->push_back(static_cast<char>('A' + arg.dtype));
    if (arg.items.empty()) continue;
    AppendTypes(graph, arg.items, key);
    key->push_back(';');
  }
}

}  // namespace

const Lowering* LoweringRules::LoweringOf(const Node& node) const {
  // Lowerings of complex numbers read both parts of their operands; only an operator that has no
  // other makes complex numbers of real ones.
  const Lowering* lowering = TakesComplexNumbers(node) ? nullptr : FindLowering(node.op);
  if (lowering == nullptr && HasComplexNumbers(node)) lowering = FindComplexLowering(node.op);
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
  return TakesComplexNumbers(node) ||
         std::any_of(node.outputs.begin(), node.outputs.end(),
                     [](const TensorType& type) { return IsComplex(type.dtype); });
}

bool LoweringRules::TakesComplexNumbers(const Node& node) const {
  bool found = false;
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    found = found || IsComplex(graph_.TypeOf(ValueOf(arg)).dtype);
  });
  return found;
}

bool LoweringRules::MayBeCall(const Node& node) const {
  return LoweringOf(node) == nullptr || IsProduct(node);
}

bool OperandTypes::Fit(const Node& node, const Lowering& lowering) {
  std::string key = node.op + "(";
  AppendTypes(graph_, node.args, &key);
  for (const TensorType& result : node.outputs)
    key.push_back(static_cast<char>('A' + result.dtype));
  const auto [found, is_new] = known_.try_emplace(std::move(key), true);
  if (is_new) found->second = Try(node, lowering);
  return found->second;
}

bool OperandTypes::Try(const Node& node, const Lowering& lowering) const {
  int last = -1;
  ForEachValue(node.args, [&](const ArgumentValue& arg) { last = std::max(last, arg.value); });
  Builder builder(device_, options_);
  std::vector<std::vector<Tensor>> values(last + 1);
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    std::vector<Tensor>& results = values[arg.value];
    if (results.size() <= static_cast<size_t>(arg.output)) results.resize(arg.output + 1);
    const TensorType& type = graph_.TypeOf(ValueOf(arg));
    results[arg.output] =
        builder.Input(arg.value, device_, type.dtype, type.sizes, type.strides, "operand");
  });
  const Results results = lowering.lower(builder, Call(graph_, node, values));
  if (!results.ok()) return true;
  for (const Tensor& result : *results) {
    if (result.defined() && !result.view()) builder.Realize(result);
  }
  return VerifyProgram(builder.program()).ok();
}

}  // namespace tensord::compiler
