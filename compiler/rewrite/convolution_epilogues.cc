// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_epilogues.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

bool SameTensors(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
}

// One number for each of the two dimensions.
ArgumentValue PairArg(const std::vector<int64_t>& numbers) {
  return IntegersArg({Expr(numbers.front()), Expr(numbers.back())});
}

// A sum of two tensors, neither scaled.
bool IsPlainSum(const Node& node) {
  return node.op == "aten::add.Tensor" && IsValue(Argument(node, "self")) &&
         IsValue(Argument(node, "other")) && Argument(node, "alpha").integer.Is(1);
}

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph* graph) : graph_(*graph), editor_(graph) {}

  int Run() {
    int count = 0;
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) count += TryFuse(i);
    editor_.Finish();
    return count;
  }

 private:
  // The addends of what a relu takes.
  struct Sum {
    std::vector<ValueId> convolutions;  // used by nothing else
    std::vector<ValueId> others;
  };

  bool TryFuse(int i) {
    const Node& relu = graph_.nodes[i];
    if (relu.op != "aten::relu" || !editor_.MayRewrite(i)) return false;
    Sum sum;
    const ValueId operand = ValueOf(Argument(relu, "self"));
    if (!Collect(operand, relu.outputs[0], &sum) || sum.convolutions.empty()) return false;
    const ValueId main = TakeMain(i, &sum.convolutions);
    if (!IsFusable(i, main)) return false;
    sum.others.insert(sum.others.end(), sum.convolutions.begin(), sum.convolutions.end());
    if (sum.others.size() > 1) return false;
    if (sum.others.size() == 1 &&
        (!SuggestsChannelsLast(editor_.TypeOf(sum.others[0])) ||
         editor_.uses().IsWrittenBetween(sum.others[0], editor_.NodeOfValue(operand.first), i))) {
      return false;
    }
    Fuse(i, main, sum.others);
    return true;
  }

  // False where an addend has another type or layout than the result.
  bool Collect(ValueId value, const TensorType& result, Sum* sum) const {
    if (!SameTensors(editor_.TypeOf(value), result)) return false;
    const Node* node = editor_.Producer(value.first);
    const bool alone = editor_.uses().Count(value) == 1;
    if (node != nullptr && alone && AsConvolution(*node)) {
      sum->convolutions.push_back(value);
      return true;
    }
    if (node != nullptr && alone && IsPlainSum(*node) &&
        sum->convolutions.size() + sum->others.size() < 2) {
      Sum inner = *sum;
      if (Collect(ValueOf(Argument(*node, "self")), result, &inner) &&
          Collect(ValueOf(Argument(*node, "other")), result, &inner)) {
        *sum = std::move(inner);
        return true;
      }
    }
    sum->others.push_back(value);
    return true;
  }

  // The one that the call becomes: one that can, rather one that becomes a product of matrices,
  // whose result lies where the memory plan wants it, and rather the last, whose operands live
  // until then anyway.
  ValueId TakeMain(int relu, std::vector<ValueId>* convolutions) const {
    const auto rank = [this, relu](ValueId value) {
      const auto convolution = AsConvolution(editor_, value);
      const bool is_product = IsPointwise16Bit(*convolution, editor_.TypeOf(convolution->input),
                                               editor_.TypeOf(convolution->weight));
      return std::tuple(IsFusable(relu, value), is_product, value);
    };
    const auto main = std::max_element(convolutions->begin(), convolutions->end(),
                                       [&](ValueId a, ValueId b) { return rank(a) < rank(b); });
    const ValueId taken = *main;
    convolutions->erase(main);
    return taken;
  }

  // The call stands where the ReLU is.
  bool IsFusable(int relu, ValueId value) const {
    const auto convolution = AsConvolution(editor_, value);
    const TensorType &type = editor_.TypeOf(value), &input = editor_.TypeOf(convolution->input);
    if (type.sizes.size() != 4 || !RunsOnTensorCores(type.dtype) || convolution->groups != 1)
      return false;
    if (!SuggestsChannelsLast(type) || !SuggestsChannelsLast(input)) return false;
    const int64_t multiple = 16 / ItemSize(type.dtype);
    for (const TensorType* t : {&type, &input}) {
      const auto channels = t->sizes[1].AsConstant();
      if (!channels || *channels % multiple != 0) return false;
    }
    return editor_.uses().ReadsTheSameAt(editor_.NodeOfValue(value.first), relu);
  }

  // The relu becomes the call.
  void Fuse(int i, ValueId main, const std::vector<ValueId>& others) {
    const Convolution convolution = *AsConvolution(editor_, main);
    const TensorType type = editor_.TypeOf(main);
    Inserter in(&editor_, i);
    std::optional<ValueId> bias = convolution.bias;
    if (!others.empty()) {
      // A bias of the residual is added once per channel, not once per element.
      if (const std::optional<ValueId> more = TakeBias(i, others[0])) {
        bias = bias ? in.Add(*bias, *more) : *more;
      }
    }
    if (!bias) bias = Zeros(&in, type);
    NamedArguments args{{"self", ValueArg(convolution.input)},
                        {"weight", ValueArg(convolution.weight)},
                        {"bias", ValueArg(*bias)},
                        {"stride", PairArg(convolution.stride)},
                        {"padding", PairArg(convolution.padding)},
                        {"dilation", PairArg(convolution.dilation)},
                        {"groups", IntegerArg(convolution.groups)}};
    if (!others.empty()) args.emplace_back("z", ValueArg(others[0]));  // whose factor, none, is 1
    Node& relu = graph_.nodes[i];
    relu = MakeNode(
        others.empty() ? "aten::cudnn_convolution_relu" : "aten::cudnn_convolution_add_relu",
        relu.name, args, relu.outputs[0]);
  }

  // The bias of a convolution that is used only here, which has none afterwards.
  std::optional<ValueId> TakeBias(int relu, ValueId value) {
    if (editor_.uses().Count(value) != 1) return std::nullopt;
    const auto convolution = AsConvolution(editor_, value);
    if (!convolution || !convolution->bias) return std::nullopt;
    const int node = editor_.NodeOfValue(value.first);
    if (editor_.uses().IsWrittenBetween(*convolution->bias, node, relu)) return std::nullopt;
    Argument(&graph_.nodes[node], "bias") = NoneArgument();
    return convolution->bias;
  }

  // Ours: the library would launch a kernel for it.
  ValueId Zeros(Inserter* in, TensorType type) {
    type.sizes = {type.sizes[1]};
    type.strides = {Expr(1)};
    return in->Node("aten::full",
                    {{"size", IntegersArg(type.sizes)},
                     {"fill_value", RealArg(0)},
                     {"dtype", DTypeArg(type.dtype)}},
                    type);
  }

  Graph& graph_;
  GraphEditor editor_;
};

}  // namespace

int ConvolutionEpilogues(const v1::Target&, Graph* graph) { return EpilogueFuser(graph).Run(); }

}  // namespace tensord::compiler
