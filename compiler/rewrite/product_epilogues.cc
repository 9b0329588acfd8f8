// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/product_epilogues.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "compiler/graph/editor.h"
#include "compiler/graph/layout.h"
#include "compiler/ops/gelu.h"
#include "compiler/rewrite/matrix_nodes.h"
#include "compiler/rewrite/scalar_function.h"

namespace tensord::compiler {
namespace {

bool IsContiguous(const TensorType& type) { return type.strides == ContiguousStrides(type.sizes); }

// The type of eager's result of a product whose rows are then only reshaped to `type`.
bool IsReshapeOf(const TensorType& type, const TensorType& product) {
  return type.dtype == product.dtype && IsContiguous(type) && IsContiguous(product) &&
         sym::Product(type.sizes) == sym::Product(product.sizes);
}

// Replaces the node's result by `product`, in the node's shape.
void ReplaceReshaped(GraphEditor* editor, int node, ValueId product) {
  const TensorType type = editor->node(node).outputs[0];
  if (!(type.sizes == editor->TypeOf(product).sizes)) {
    product = editor->Insert(
        node, MakeNode("aten::view", editor->node(node).name,
                       {{"self", ValueArg(product)}, {"size", IntegersArg(type.sizes)}}, type));
  }
  editor->Replace({editor->ValueOfNode(node), 0}, product);
}

// ---- Biases

// The product, or null, whose result comes to `value` through reshapes that keep rows whole, each
// read by nothing else, and whose operands are the same at node `sum`.
const Node* ProductBehind(const GraphEditor& editor, int sum, ValueId value, const Expr& columns) {
  while (const Node* node = editor.Producer(value.first)) {
    if (editor.uses().Readers(value).size() != 1) return nullptr;
    if (node->op == "aten::mm") {
      const bool moves = node->outputs[0].sizes[1] == columns &&
                         editor.uses().ReadsTheSameAt(editor.NodeOfValue(value.first), sum);
      return moves ? node : nullptr;
    }
    if (node->op != "aten::view" && node->op != "aten::_unsafe_view") return nullptr;
    if (!(node->outputs[0].sizes.back() == columns)) return nullptr;
    value = ValueOf(Argument(*node, "self"));
  }
  return nullptr;
}

// add(mm(a, b), bias) with a bias for each column becomes addmm(bias, a, b).
int TakeInBiases(Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& add = editor.node(i);
    if (add.op != "aten::add.Tensor" || !editor.MayRewrite(i) || !IsOne(Argument(add, "alpha")))
      continue;
    const ArgumentValue &self = Argument(add, "self"), &other = Argument(add, "other");
    for (const bool is_self : {true, false}) {
      const ArgumentValue &sum = is_self ? self : other, &bias = is_self ? other : self;
      if (!IsValue(sum) || !IsValue(bias)) continue;
      const TensorType &bias_type = editor.TypeOf(ValueOf(bias)), &type = add.outputs[0];
      if (bias_type.sizes.size() != 1 || type.sizes.size() < 2 ||
          !(bias_type.sizes[0] == type.sizes.back()) || bias_type.dtype != type.dtype) {
        continue;
      }
      const Node* mm = ProductBehind(editor, i, ValueOf(sum), type.sizes.back());
      if (mm == nullptr || !RunsOnTensorCores(type.dtype) || !IsReshapeOf(type, mm->outputs[0])) {
        continue;
      }
      const ValueId product = editor.Insert(i, MakeNode("aten::addmm", mm->name,
                                                        {{"self", bias},
                                                         {"mat1", Argument(*mm, "self")},
                                                         {"mat2", Argument(*mm, "mat2")},
                                                         {"beta", IntegerArg(1)},
                                                         {"alpha", IntegerArg(1)}},
                                                        mm->outputs[0]));
      ReplaceReshaped(&editor, i, product);
      break;
    }
  }
  return editor.Finish();
}

// ---- Activations

enum class Activation { kRelu, kGelu };

// Compared at a few points: two functions of these operators that agree there to seven digits are
// the same one.
std::optional<Activation> ActivationOf(const Graph& graph, const ScalarFunction& function,
                                       ValueId result) {
  constexpr double kPoints[] = {-5.5, -2.25, -1.125, -0.7, -0.1, 0, 0.2, 0.9, 1.5, 2.75, 6.5};
  bool relu = true, gelu = true;
  for (const double x : kPoints) {
    const double y = Evaluate(graph, function, result, x);
    // Written so that a NaN is neither.
    relu = relu && std::abs(y - std::max(x, 0.0)) < 1e-7;
    gelu = gelu && std::abs(y - GeluTanh(x)) < 1e-7;
  }
  if (relu) return Activation::kRelu;
  if (gelu) return Activation::kGelu;
  return std::nullopt;
}

class ActivationPass {
 public:
  explicit ActivationPass(Graph* graph) : graph_(*graph), editor_(graph) {}

  int Run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) Try(i);
    return editor_.Finish();
  }

 private:
  void Try(int i) {
    const ValueId result(editor_.ValueOfNode(i), 0);
    if (graph_.nodes[i].outputs.size() != 1 || !IsLast(result)) return;
    const std::optional<ScalarFunction> function = ScalarFunctionOf(graph_, result);
    if (!function || taken_.count(function->argument) > 0) return;
    const Node& addmm = *editor_.Producer(function->argument.first);
    const TensorType& product = addmm.outputs[0];
    if (addmm.op != "aten::addmm" || !RunsOnTensorCores(product.dtype) ||
        !IsReshapeOf(graph_.nodes[i].outputs[0], product) || !HasPlainBias(addmm) ||
        !OnlyFor(*function, i) ||
        !editor_.uses().ReadsTheSameAt(editor_.NodeOfValue(function->argument.first), i)) {
      return;
    }
    const std::optional<Activation> activation = ActivationOf(graph_, *function, result);
    if (!activation) return;
    taken_.insert(function->argument);
    NamedArguments args{{"use_gelu", BooleanArg(*activation == Activation::kGelu)}};
    for (const char* name : {"self", "mat1", "mat2", "beta", "alpha"}) {
      args.emplace_back(name, Argument(addmm, name));
    }
    Node fused = MakeNode("aten::_addmm_activation", addmm.name, args, product);
    ReplaceReshaped(&editor_, i, editor_.Insert(i, std::move(fused)));
  }

  // Whether the library reads the result, or nobody in the graph. A kernel of ours that reads it
  // would compute the activation for nothing on its way, while in the product it takes a little
  // time.
  bool IsLast(ValueId result) const {
    const std::span<const int> readers = editor_.uses().Readers(result);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](int reader) {
      if (reader == static_cast<int>(graph_.nodes.size())) return true;
      const Node& node = graph_.nodes[reader];
      if (!IsView(node)) return !IsGenerated(node);
      return node.outputs.size() == 1 && IsLast({editor_.ValueOfNode(reader), 0});
    });
  }

  // One number a column, which is what the library's epilogue adds.
  bool HasPlainBias(const Node& addmm) const {
    const TensorType& bias = editor_.TypeOf(ValueOf(Argument(addmm, "self")));
    return bias.sizes.size() == 1 && bias.sizes[0] == addmm.outputs[0].sizes[1] &&
           bias.strides[0].Is(1) && IsOne(Argument(addmm, "beta")) &&
           IsOne(Argument(addmm, "alpha"));
  }

  // Nothing on the way but the last step is read by others.
  bool OnlyFor(const ScalarFunction& function, int last) const {
    const auto within = [&](ValueId value) {
      const std::span<const int> readers = editor_.uses().Readers(value);
      return std::all_of(readers.begin(), readers.end(),
                         [&](int reader) { return function.nodes.count(reader) > 0; });
    };
    return within(function.argument) &&
           std::all_of(function.nodes.begin(), function.nodes.end(), [&](int node) {
             return node == last || within({editor_.ValueOfNode(node), 0});
           });
  }

  const Graph& graph_;
  GraphEditor editor_;
  std::set<ValueId> taken_;  // products that have their activation
};

}  // namespace

int ProductEpilogues(const v1::Target&, Graph* graph) {
  const int biases = TakeInBiases(graph);
  return biases + ActivationPass(graph).Run();
}

}  // namespace tensord::compiler
