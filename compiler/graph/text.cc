// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "compiler/graph/layout.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

std::string Text(const Expr& e) { return sym::ToString(e); }

const char* DeviceName(v1::DeviceType device) {
  return device == v1::DEVICE_TYPE_CUDA ? "cuda" : "cpu";
}

std::string Text(const TensorType& type) {
  if (type.dtype == v1::DTYPE_UNSPECIFIED) return "absent";
  std::string text =
      absl::StrCat(TypeText(type.dtype, type.sizes), " strides ", sym::ToString(type.strides));
  if (!type.offset.Is(0)) absl::StrAppend(&text, " offset ", Text(type.offset));
  return absl::StrCat(text, " ", DeviceName(type.device));
}

std::string Text(const ArgumentValue& arg) {
  switch (arg.kind) {
    case ArgumentValue::kNone:
      return "none";
    case ArgumentValue::kValue:
      return arg.output == 0 ? absl::StrCat("%", arg.value)
                             : absl::StrCat("%", arg.value, ".", arg.output);
    case ArgumentValue::kInteger:
      return Text(arg.integer);
    case ArgumentValue::kReal:
      return absl::StrCat(arg.real);
    case ArgumentValue::kBoolean:
      return arg.integer.Is(0) ? "false" : "true";
    case ArgumentValue::kText:
      return absl::StrCat("'", arg.text, "'");
    case ArgumentValue::kDType:
      return DTypeName(arg.dtype);
    case ArgumentValue::kDevice:
      return DeviceName(arg.device);
    case ArgumentValue::kMemoryFormat:
      return v1::MemoryFormat_Name(arg.memory_format);
    case ArgumentValue::kLayout:
      return "strided";
    case ArgumentValue::kList:
      break;
  }
  const auto append = [](std::string* out, const ArgumentValue& item) {
    absl::StrAppend(out, Text(item));
  };
  return absl::StrCat("[", absl::StrJoin(arg.items, ", ", append), "]");
}

std::string Arguments(const Node& node) {
  const Operator* op = FindOperator(node.op);
  std::string text;
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (i > 0) absl::StrAppend(&text, ", ");
    if (op != nullptr && i < op->parameters.size()) {
      absl::StrAppend(&text, std::string(op->parameters[i].name), "=");
    }
    absl::StrAppend(&text, Text(node.args[i]));
  }
  return text;
}

}  // namespace

std::string ToString(const Graph& graph) {
  const Uses uses(graph);
  std::string text;
  int value = 0;
  for (const GraphInput& input : graph.inputs) {
    absl::StrAppend(&text, "%", value++, " = input ", input.name, ": ",
                    input.is_tensor ? Text(input.tensor) : Text(input.integer), "\n");
  }
  for (size_t i = 0; i < graph.constant_types.size(); ++i) {
    absl::StrAppend(&text, "%", value++, " = constant ", graph.constants[i].name(), ": ",
                    Text(graph.constant_types[i]), "\n");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto append = [](std::string* out, const TensorType& type) {
      absl::StrAppend(out, Text(type));
    };
    absl::StrAppend(&text, "%", value++, " = ", node.op, "(", Arguments(node),
                    "): ", absl::StrJoin(node.outputs, "; ", append), "  # ", node.name,
                    uses.Runs(static_cast<int>(i)) ? "" : ", not needed", "\n");
  }
  const auto append = [](std::string* out, const ArgumentValue& output) {
    absl::StrAppend(out, Text(output));
  };
  return absl::StrCat(text, "return ", absl::StrJoin(graph.outputs, ", ", append), "\n");
}

}  // namespace tensord::compiler
