// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/arguments.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "base/check.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

int PositionOf(const Node& node, std::string_view name) {
  const Operator* op = FindOperator(node.op);
  const int position = op == nullptr ? -1 : op->Position(name);
  TENSORD_CHECK(position >= 0 && position < static_cast<int>(node.args.size()),
                absl::StrCat(Describe(node), " has no argument ", std::string(name)));
  return position;
}

}  // namespace

const ArgumentValue& Argument(const Node& node, std::string_view name) {
  return node.args[PositionOf(node, name)];
}
ArgumentValue& Argument(Node* node, std::string_view name) {
  return node->args[PositionOf(*node, name)];
}

void ForEachValue(const std::vector<ArgumentValue>& args,
                  const std::function<void(const ArgumentValue&)>& visit) {
  for (const ArgumentValue& arg : args) {
    if (IsValue(arg)) visit(arg);
    ForEachValue(arg.items, visit);
  }
}

void ForEachValue(std::vector<ArgumentValue>* args,
                  const std::function<void(ArgumentValue*)>& visit) {
  for (ArgumentValue& arg : *args) {
    if (IsValue(arg)) visit(&arg);
    ForEachValue(&arg.items, visit);
  }
}

std::optional<ValueId> OptionalValueOf(const ArgumentValue& arg) {
  if (!IsValue(arg)) return std::nullopt;
  return ValueOf(arg);
}

bool IsOne(const ArgumentValue& arg) {
  return (arg.kind == ArgumentValue::kInteger && arg.integer.Is(1)) ||
         (arg.kind == ArgumentValue::kReal && arg.real == 1);
}

ArgumentValue ValueArg(ValueId value) {
  return {.kind = ArgumentValue::kValue, .value = value.first, .output = value.second};
}
ArgumentValue IntegerArg(const Expr& value) {
  return {.kind = ArgumentValue::kInteger, .integer = value};
}
ArgumentValue BooleanArg(bool value) {
  return {.kind = ArgumentValue::kBoolean, .integer = Expr(value ? 1 : 0)};
}
ArgumentValue RealArg(double value) { return {.kind = ArgumentValue::kReal, .real = value}; }
ArgumentValue IntegersArg(const std::vector<Expr>& values) {
  ArgumentValue list{.kind = ArgumentValue::kList};
  for (const Expr& value : values) list.items.push_back(IntegerArg(value));
  return list;
}
ArgumentValue DTypeArg(DType dtype) { return {.kind = ArgumentValue::kDType, .dtype = dtype}; }
ArgumentValue NoneArgument() { return {}; }

Node MakeNode(std::string op, std::string name, const NamedArguments& args, TensorType type) {
  Node node{.op = std::move(op), .name = std::move(name)};
  const Operator* known = FindOperator(node.op);
  TENSORD_CHECK(known != nullptr, absl::StrCat(Describe(node), " is no operator of compiler/ops"));
  node.args.resize(known->parameters.size());
  std::vector<bool> named(node.args.size(), false);
  for (const auto& [argument, value] : args) {
    const int position = PositionOf(node, argument);
    node.args[position] = value;
    named[position] = true;
  }
  for (size_t i = 0; i < named.size(); ++i) {
    TENSORD_CHECK(named[i] || known->parameters[i].optional,
                  absl::StrCat(Describe(node), " lacks its argument ",
                               std::string(known->parameters[i].name)));
  }
  node.outputs.push_back(std::move(type));
  return node;
}

}  // namespace tensord::compiler
