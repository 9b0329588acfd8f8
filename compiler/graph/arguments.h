// SPDX-License-Identifier: Apache-2.0
// Arguments of nodes: read by the names of the operator's schema (compiler/ops), made from values.
#ifndef TENSORD_COMPILER_GRAPH_ARGUMENTS_H_
#define TENSORD_COMPILER_GRAPH_ARGUMENTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace tensord::compiler {

// The argument of that name. Requires: the operator has a line in compiler/ops, with that name.
const ArgumentValue& Argument(const Node& node, std::string_view name);
ArgumentValue& Argument(Node* node, std::string_view name);
// The first argument, whatever its name: what a view looks at and what a conversion converts.
inline const ArgumentValue& FirstArgument(const Node& node) { return node.args[0]; }
inline ArgumentValue& FirstArgument(Node* node) { return node->args[0]; }

// Calls visit(argument) for every kValue argument, also inside lists.
void ForEachValue(const std::vector<ArgumentValue>& args,
                  const std::function<void(const ArgumentValue&)>& visit);
// The same for arguments that are to be changed.
void ForEachValue(std::vector<ArgumentValue>* args,
                  const std::function<void(ArgumentValue*)>& visit);

inline bool IsValue(const ArgumentValue& arg) { return arg.kind == ArgumentValue::kValue; }
// Of a kValue argument.
inline ValueId ValueOf(const ArgumentValue& arg) { return {arg.value, arg.output}; }
// Nothing for what is not a kValue.
std::optional<ValueId> OptionalValueOf(const ArgumentValue& arg);
// A number that is 1.
bool IsOne(const ArgumentValue& arg);

ArgumentValue ValueArg(ValueId value);
ArgumentValue IntegerArg(const Expr& value);
ArgumentValue BooleanArg(bool value);
ArgumentValue RealArg(double value);
ArgumentValue IntegersArg(const std::vector<Expr>& values);
ArgumentValue DTypeArg(DType dtype);
ArgumentValue NoneArgument();

// A node with one result, of arguments by name in any order; optional ones that are not named are
// none. Requires: the operator has a line in compiler/ops, with these names and no other that is
// not optional.
using NamedArguments = std::vector<std::pair<std::string_view, ArgumentValue>>;
Node MakeNode(std::string op, std::string name, const NamedArguments& args, TensorType type);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_ARGUMENTS_H_
