// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/scalar_function.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/check.h"

namespace tensord::compiler {
namespace {

constexpr size_t kMostNodes = 24;
constexpr double kGeluBeta = 0.79788456080286535588, kGeluKappa = 0.044715;

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluBeta * (x + kGeluKappa * x * x * x)));
}

// The values of a node's leading arguments.
using Args = const double*;
struct ScalarOperator {
  std::string_view op;
  int arguments;  // how many count
  double (*compute)(Args a);
};
double Same(Args a) { return a[0]; }
double Add(Args a) { return a[0] + a[1] * a[2]; }
double Sub(Args a) { return a[0] - a[1] * a[2]; }
double Mul(Args a) { return a[0] * a[1]; }
double Div(Args a) { return a[0] / a[1]; }
double Pow(Args a) { return std::pow(a[0], a[1]); }
double Tanh(Args a) { return std::tanh(a[0]); }
double Relu(Args a) { return std::max(a[0], 0.0); }
double AtLeast(Args a) { return std::max(a[0], a[1]); }
double GeluOp(Args a) { return Gelu(a[0]); }

constexpr ScalarOperator kOperators[] = {
    {"aten::_to_copy", 1, Same},
    {"prims::convert_element_type", 1, Same},
    {"aten::view", 1, Same},
    {"aten::_unsafe_view", 1, Same},
    {"aten::reshape", 1, Same},
    {"aten::alias", 1, Same},
    {"aten::add.Tensor", 3, Add},
    {"aten::add.Scalar", 3, Add},
    {"aten::sub.Tensor", 3, Sub},
    {"aten::sub.Scalar", 3, Sub},
    {"aten::mul.Tensor", 2, Mul},
    {"aten::mul.Scalar", 2, Mul},
    {"aten::div.Tensor", 2, Div},
    {"aten::div.Scalar", 2, Div},
    {"aten::pow.Tensor_Scalar", 2, Pow},
    {"aten::tanh", 1, Tanh},
    {"aten::relu", 1, Relu},
    {"aten::clamp_min", 2, AtLeast},
    {"aten::gelu", 1, GeluOp},
};

const ScalarOperator* FindScalarOperator(const Node& node) {
  const auto* const found =
      std::find_if(std::begin(kOperators), std::end(kOperators),
                   [&](const ScalarOperator& row) { return row.op == node.op; });
  if (found == std::end(kOperators) || node.outputs.size() != 1 ||
      static_cast<int>(node.args.size()) < found->arguments || !IsFloating(node.outputs[0].dtype)) {
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
    for (int i = 0; i < row->arguments; ++i) {
      const ArgumentValue& arg = graph_.nodes[node].args[i];
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
    double args[3] = {};
    for (int a = 0; a < row->arguments; ++a) {
      const ArgumentValue& arg = node.args[a];
      args[a] = IsValue(arg) ? values.at(ValueOf(arg)) : NumberOf(arg).value();
    }
    values[{graph.FirstNodeValue() + i, 0}] = row->compute(args);
  }
  return values.at(result);
}

}  // namespace tensord::compiler
