// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/scalar_function.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "base/check.h"
#include "compiler/ops/gelu.h"

namespace tensord::compiler {
namespace {

constexpr size_t kMostNodes = 24;
constexpr int kMostArguments = 3;

// The values of a row's arguments.
using Args = const double*;
double Same(Args a) { return a[0]; }
double Add(Args a) { return a[0] + a[1] * a[2]; }
double Sub(Args a) { return a[0] - a[1] * a[2]; }
double Mul(Args a) { return a[0] * a[1]; }
double Div(Args a) { return a[0] / a[1]; }
double Pow(Args a) { return std::pow(a[0], a[1]); }
double Tanh(Args a) { return std::tanh(a[0]); }
double Relu(Args a) { return std::max(a[0], 0.0); }
double AtLeast(Args a) { return std::max(a[0], a[1]); }
double Gelu(Args a) { return GeluTanh(a[0]); }

struct ScalarOperator {
  std::string_view op;
  // By the names of the schema; empty behind the last.
  std::array<std::string_view, kMostArguments> arguments;
  double (*compute)(Args a);
};

// Among the views are those that keep the order of elements, whatever their sizes.
constexpr ScalarOperator kOperators[] = {
    {"aten::_to_copy", {"self"}, Same},
    {"prims::convert_element_type", {"a"}, Same},
    {"aten::view", {"self"}, Same},
    {"aten::_unsafe_view", {"self"}, Same},
    {"aten::reshape", {"self"}, Same},
    {"aten::alias", {"self"}, Same},
    {"aten::add.Tensor", {"self", "other", "alpha"}, Add},
    {"aten::add.Scalar", {"self", "other", "alpha"}, Add},
    {"aten::sub.Tensor", {"self", "other", "alpha"}, Sub},
    {"aten::sub.Scalar", {"self", "other", "alpha"}, Sub},
    {"aten::mul.Tensor", {"self", "other"}, Mul},
    {"aten::mul.Scalar", {"self", "other"}, Mul},
    {"aten::div.Tensor", {"self", "other"}, Div},
    {"aten::div.Scalar", {"self", "other"}, Div},
    {"aten::pow.Tensor_Scalar", {"self", "exponent"}, Pow},
    {"aten::tanh", {"self"}, Tanh},
    {"aten::relu", {"self"}, Relu},
    {"aten::clamp_min", {"self", "min"}, AtLeast},
    {"aten::gelu", {"self"}, Gelu},
};

const ScalarOperator* FindScalarOperator(const Node& node) {
  const auto* const found =
      std::find_if(std::begin(kOperators), std::end(kOperators),
                   [&](const ScalarOperator& row) { return row.op == node.op; });
  if (found == std::end(kOperators) || node.outputs.size() != 1 ||
      !IsFloating(node.outputs[0].dtype)) {
    return nullptr;
  }
  // The other form is another function, which no library has as an epilogue.
  if (node.op == "aten::gelu" && Argument(node, "approximate").text != "tanh") {
    return nullptr;
  }
  return found;
}

std::optional<double> NumberOf(const ArgumentValue& arg) {
  if (arg.kind == ArgumentValue::kReal) return arg.real;
  if (arg.kind != ArgumentValue::kInteger || !arg.integer.IsConstant()) return std::nullopt;
  return static_cast<double>(*arg.integer.AsConstant());
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {}

  bool Visit(ValueId value) {
    const int node = value.first - graph_.FirstNodeValue();
    if (node < 0) return false;
    if (function_.nodes.count(node) > 0) return true;
    const ScalarOperator* row = FindScalarOperator(graph_.nodes[node]);
    if (row == nullptr) {
      if (found_ && function_.argument != value) return false;
      found_ = true;
      function_.argument = value;
      return true;
    }
    function_.nodes.insert(node);
    if (function_.nodes.size() > kMostNodes) return false;
    for (const std::string_view name : row->arguments) {
      if (name.empty()) break;
      const ArgumentValue& arg = Argument(graph_.nodes[node], name);
      if (!IsValue(arg)) {
        if (!NumberOf(arg)) return false;
        continue;
      }
      // Operands of one shape: nothing is broadcast.
      const TensorType& type = graph_.TypeOf(arg.value, arg.output);
      if (!(sym::Product(type.sizes) == sym::Product(graph_.nodes[node].outputs[0].sizes)) ||
          !Visit(ValueOf(arg))) {
        return false;
      }
    }
    return true;
  }

  std::optional<ScalarFunction> Result() const {
    if (!found_ || function_.nodes.empty()) return std::nullopt;
    return function_;
  }

 private:
  const Graph& graph_;
  ScalarFunction function_;
  bool found_ = false;
};

}  // namespace

std::optional<ScalarFunction> ScalarFunctionOf(const Graph& graph, ValueId result) {
  Finder finder(graph);
  if (!finder.Visit(result)) return std::nullopt;
  return finder.Result();
}

double Evaluate(const Graph& graph, const ScalarFunction& function, ValueId result, double x) {
  std::map<ValueId, double> values{{function.argument, x}};
  for (const int i : function.nodes) {  // in the graph's order, so that operands come first
    const Node& node = graph.nodes[i];
    const ScalarOperator* row = FindScalarOperator(node);
    TENSORD_CHECK(row != nullptr, Describe(node));
    double args[kMostArguments] = {};
    for (int a = 0; a < kMostArguments && !row->arguments[a].empty(); ++a) {
      const ArgumentValue& arg = Argument(node, row->arguments[a]);
      args[a] = IsValue(arg) ? values.at(ValueOf(arg)) : NumberOf(arg).value();
    }
    values[{graph.FirstNodeValue() + i, 0}] = row->compute(args);
  }
  return values.at(result);
}

}  // namespace tensord::compiler
