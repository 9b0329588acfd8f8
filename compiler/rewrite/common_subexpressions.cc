// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/common_subexpressions.h"

#include <absl/strings/str_cat.h>

#include <bit>
#include <map>
#include <string>

#include "compiler/graph/editor.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

using Firsts = std::map<int, int>;  // superfluous value -> the equal one before it

// A text that two arguments share only when they are equal.
std::string KeyOf(const ArgumentValue& arg, const Firsts& firsts) {
  const auto first = firsts.find(arg.value);
  std::string key = absl::StrCat(
      arg.kind, ":", first == firsts.end() ? arg.value : first->second, ".", arg.output, ",",
      sym::ToString(arg.integer), ",", std::bit_cast<uint64_t>(arg.real), ",", arg.text.size(), ",",
      arg.text, ",", arg.dtype, ",", arg.device, ",", arg.memory_format, "[");
  for (const ArgumentValue& item : arg.items) absl::StrAppend(&key, KeyOf(item, firsts), ";");
  return key + "]";
}

std::string KeyOf(const Node& node, const Firsts& firsts) {
  std::string key = node.op;
  for (const ArgumentValue& arg : node.args) absl::StrAppend(&key, " ", KeyOf(arg, firsts));
  // What the arguments leave to the job's defaults is in the results' types.
  for (const TensorType& type : node.outputs) {
    absl::StrAppend(&key, " ", type.dtype, ",", type.device);
    for (const Expr& size : type.sizes) absl::StrAppend(&key, ",", sym::ToString(size));
    for (const Expr& stride : type.strides) absl::StrAppend(&key, ";", sym::ToString(stride));
  }
  return key;
}

}  // namespace

int CommonSubexpressions(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  std::map<std::string, int> seen;
  Firsts firsts;
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& node = graph->nodes[i];
    const Operator* op = FindOperator(node.op);
    if (WritesArgument(op)) seen.clear();  // what was read before may have changed
    // Of operators that we lower it is known that they compute and do nothing else.
    if (!IsLowered(op) || HasEffect(node) || !editor.MayRewrite(i)) continue;
    const int value = editor.ValueOfNode(i), outputs = static_cast<int>(node.outputs.size());
    const auto [it, is_new] = seen.emplace(KeyOf(node, firsts), value);
    if (is_new) continue;
    bool given_out = false;
    for (int o = 0; o < outputs; ++o) given_out = given_out || editor.uses().IsGivenOut({value, o});
    if (given_out) continue;
    firsts[value] = it->second;
    for (int o = 0; o < outputs; ++o) editor.Replace({value, o}, {it->second, o});
  }
  editor.Finish();
  return static_cast<int>(firsts.size());
}

}  // namespace tensord::compiler
