// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/verify.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/graph/arguments.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

using A = ArgumentValue;

constexpr const char* kKindNames[] = {
    "none",     "a tensor",        "an integer", "a real", "a boolean", "a text", "an element type",
    "a device", "a memory format", "a layout",   "a list"};

bool IsWhole(const A& arg) { return arg.kind == A::kInteger || arg.kind == A::kBoolean; }

bool Accepts(ArgumentType type, const A& arg) {
  switch (type) {
    case ArgumentType::kTensor:
      return arg.kind == A::kValue;
    case ArgumentType::kInteger:
      return IsWhole(arg);
    case ArgumentType::kReal:
      // A symbolic integer here would have to be frozen at its hint.
      return arg.kind == A::kReal || (IsWhole(arg) && arg.integer.IsConstant());
    case ArgumentType::kNumber:
      return arg.kind == A::kReal || IsWhole(arg);
    case ArgumentType::kTensorOrNumber:
      return arg.kind == A::kValue || arg.kind == A::kReal || IsWhole(arg);
    case ArgumentType::kBoolean:
      return IsWhole(arg) && arg.integer.IsConstant();
    case ArgumentType::kText:
      return arg.kind == A::kText;
    case ArgumentType::kDType:
      return arg.kind == A::kDType;
    case ArgumentType::kDevice:
      return arg.kind == A::kDevice;
    case ArgumentType::kMemoryFormat:
      return arg.kind == A::kMemoryFormat;
    case ArgumentType::kLayout:
      return arg.kind == A::kLayout;
    case ArgumentType::kGenerator:
      return arg.kind == A::kNone;
  }
  return false;
}

bool Fits(const Parameter& parameter, const A& arg) {
  if (parameter.optional && arg.kind == A::kNone) return true;
  if (!parameter.list) return Accepts(parameter.type, arg);
  // torch takes one integer for a list of one.
  if (arg.kind == A::kInteger && parameter.type == ArgumentType::kInteger) return true;
  return arg.kind == A::kList &&
         std::all_of(arg.items.begin(), arg.items.end(), [&](const A& item) {
           return Accepts(parameter.type, item) ||
                  (parameter.optional_items && item.kind == A::kNone);
         });
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const GraphInput& input = graph_.inputs[i];
      if (input.is_tensor) TENSORD_RETURN_IF_ERROR(Type(absl::StrCat("input ", i), input.tensor));
    }
    for (size_t i = 0; i < graph_.constant_types.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(Type(absl::StrCat("constant ", i), graph_.constant_types[i]));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(VerifyNode(static_cast<int>(i)));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(Output(absl::StrCat("output ", i), graph_.outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Parts>
  static absl::Status Invalid(const Node& node, const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": ", parts...));
  }

  absl::Status VerifyNode(int i) const {
    const Node& node = graph_.nodes[i];
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o].dtype == v1::DTYPE_UNSPECIFIED) continue;
      if (!IsComplete(node.outputs[o])) return Invalid(node, "result ", o, " has no complete type");
    }
    bool refers = true;
    ForEachValue(node.args, [&](const A& arg) {
      refers = refers && Exists(arg, graph_.FirstNodeValue() + i);
    });
    if (!refers) return Invalid(node, "refers to a value that does not come before it");
    TENSORD_RETURN_IF_ERROR(Effects(node));
    const Operator* op = FindOperator(node.op);
    return op == nullptr ? absl::OkStatus() : Arguments(node, *op);
  }

  // ---- References and types

  bool Exists(const A& arg, int limit) const {
    if (arg.value < 0 || arg.value >= limit || arg.output < 0) return false;
    const int node = arg.value - graph_.FirstNodeValue();
    const size_t results = node < 0 ? 1 : graph_.nodes[node].outputs.size();
    if (static_cast<size_t>(arg.output) >= results) return false;
    return graph_.TypeOf(ValueOf(arg)).dtype != v1::DTYPE_UNSPECIFIED;
  }

  static bool IsComplete(const TensorType& type) {
    return ItemSize(type.dtype) > 0 && type.device != v1::DEVICE_TYPE_UNSPECIFIED &&
           type.sizes.size() == type.strides.size();
  }

  static absl::Status Type(const std::string& where, const TensorType& type) {
    if (IsComplete(type)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(where, ": has no complete type"));
  }

  absl::Status Output(const std::string& where, const A& output) const {
    const int limit = graph_.FirstNodeValue() + static_cast<int>(graph_.nodes.size());
    const bool good = IsValue(output) ? Exists(output, limit)
                                      : output.kind == A::kInteger || output.kind == A::kNone;
    if (good) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": is neither a value nor an integer nor none"));
  }

  // ---- Operators

  absl::Status Effects(const Node& node) const {
    const std::string_view op = node.op, base = op.substr(0, op.find('.'));
    if (base.starts_with("tensord::") && FindOperator(node.op) == nullptr) {
      return Invalid(node, "unknown operator of tensord's own");
    }
    const bool dunder = base.ends_with("__");
    const bool writes =
        (base.ends_with("_") && !dunder) || op.ends_with(".out") || op.ends_with("_out");
    const Operator* known = FindOperator(node.op);
    if (writes && !WritesArgument(known)) {
      return Invalid(node, "writes to its arguments; make the graph functional");
    }
    return absl::OkStatus();
  }

  absl::Status Arguments(const Node& node, const Operator& op) const {
    if (op.parameters.size() != node.args.size()) {
      return Invalid(node, "takes ", op.parameters.size(), " arguments, but has ",
                     node.args.size());
    }
    for (size_t i = 0; i < node.args.size(); ++i) {
      const Parameter& parameter = op.parameters[i];
      if (Fits(parameter, node.args[i])) continue;
      return Invalid(node, "argument '", std::string(parameter.name), "' must be ",
                     parameter.list ? "a list, each item " : "", DescriptionOf(parameter.type),
                     ", but is ", kKindNames[node.args[i].kind]);
    }
    for (const ValueId& written : WrittenBy(node)) {
      if (!MayBeWritten(written)) {
        return Invalid(node, "only inputs may be written; make the graph functional");
      }
    }
    return absl::OkStatus();
  }

  // As Uses has it, which wants a sound graph.
  ValueId RootOf(ValueId value) const {
    while (value.first >= graph_.FirstNodeValue()) {
      const Node& node = graph_.nodes[value.first - graph_.FirstNodeValue()];
      if (!IsView(node)) break;
      value = ValueOf(FirstArgument(node));
    }
    return value;
  }

  bool MayBeWritten(ValueId value) const {
    const int root = RootOf(value).first;
    if (root < static_cast<int>(graph_.inputs.size())) return true;
    // What a copy gives is what it has written.
    const int from = root - graph_.FirstNodeValue();
    return from >= 0 && WritesArgument(FindOperator(graph_.nodes[from].op)) &&
           !IsOfKind(FindOperator(graph_.nodes[from].op), OperatorKind::kCallBack);
  }

  const Graph& graph_;
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace tensord::compiler
