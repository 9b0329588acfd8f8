// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/fold_batch_norm.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "compiler/graph/layout.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

// Operators whose other arguments have the same names.
struct BatchNormOperator {
  std::string_view op;
  std::string_view training;  // empty: never
  std::string_view eps;
};
constexpr BatchNormOperator kBatchNorms[] = {
    {"aten::_native_batch_norm_legit_no_training", "", "eps"},
    {"aten::_native_batch_norm_legit", "training", "eps"},
    {"aten::native_batch_norm", "training", "eps"},
    {"aten::cudnn_batch_norm", "training", "epsilon"},
    {"aten::_batch_norm_no_update", "", "eps"},
};

struct BatchNorm {
  ValueId input, mean, variance;
  std::optional<ValueId> weight, bias;
  double eps;
};

std::optional<BatchNorm> AsInferenceBatchNorm(const Node& node) {
  const auto* row = std::find_if(std::begin(kBatchNorms), std::end(kBatchNorms),
                                 [&](const BatchNormOperator& r) { return r.op == node.op; });
  if (row == std::end(kBatchNorms)) return std::nullopt;
  if (!row->training.empty() && !Argument(node, row->training).integer.Is(0)) {
    return std::nullopt;
  }
  const auto value = [&](std::string_view name) { return OptionalValueOf(Argument(node, name)); };
  const auto mean = value("running_mean"), variance = value("running_var");
  const ArgumentValue& eps = Argument(node, row->eps);
  if (!mean || !variance || eps.kind != ArgumentValue::kReal) return std::nullopt;
  return BatchNorm{.input = *value("input"),
                   .mean = *mean,
                   .variance = *variance,
                   .weight = value("weight"),
                   .bias = value("bias"),
                   .eps = eps.real};
}

// Weights for each element of the result, where scaling them is a pass of its own. It shares a
// launch with other such passes, while a batch norm between two library calls is a launch alone.
constexpr int64_t kMostWeights = 4;

class Folder {
 public:
  explicit Folder(Graph* graph) : graph_(*graph), editor_(graph) {}

  int Run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) TryFold(i);
    return editor_.Finish();
  }

 private:
  void TryFold(int i) {
    const Node& node = graph_.nodes[i];
    const auto norm = AsInferenceBatchNorm(node);
    if (!norm || !editor_.MayRewrite(i) || OtherResultsAreUsed(i)) return;
    const auto convolution = AsConvolution(editor_, norm->input);
    if (!convolution || editor_.uses().Count(norm->input) != 1) return;
    const TensorType &result = node.outputs[0], &activations = editor_.TypeOf(norm->input);
    if (result.dtype != activations.dtype || result.strides != activations.strides) return;
    if (!IsFloating(result.dtype) || result.dtype == kFloat64) return;

    // A conversion of the weights in front of the convolution is part of the one that we make.
    const auto source = ConvertedFrom(editor_, convolution->weight);
    const ValueId weight = source.value_or(convolution->weight);
    if (!source &&
        ElementsHint(editor_.TypeOf(weight)) > kMostWeights * ElementsHint(activations)) {
      return;
    }
    const int at = editor_.NodeOfValue(norm->input.first);
    const int converted = editor_.NodeOfValue(convolution->weight.first);
    if (source && editor_.uses().IsWrittenBetween(weight, converted, at)) return;
    if (!CanReadAtConvolution(i, *norm)) return;
    Fold(*norm, *convolution, weight);
    editor_.Replace({editor_.ValueOfNode(i), 0}, norm->input);
  }

  // Whether the parameters of the batch norm `i` are there, as they are, in front of its
  // convolution.
  bool CanReadAtConvolution(int i, const BatchNorm& norm) const {
    const int at = editor_.NodeOfValue(norm.input.first);
    for (const std::optional<ValueId>& value :
         {std::optional(norm.mean), std::optional(norm.variance), norm.weight, norm.bias}) {
      if (!value) continue;
      if (value->first >= norm.input.first) return false;
      if (editor_.uses().IsWrittenBetween(*value, at, i)) return false;
    }
    return true;
  }

  bool OtherResultsAreUsed(int i) const {
    for (int o = 1; o < static_cast<int>(graph_.nodes[i].outputs.size()); ++o) {
      if (editor_.uses().Count({editor_.ValueOfNode(i), o}) > 0) return true;
    }
    return false;
  }

  // ((x * W + b) - mean) * scale + shift, with scale = gamma / sqrt(variance + eps), is
  // x * (W * scale) + ((b - mean) * scale + shift).
  void Fold(const BatchNorm& norm, const Convolution& convolution, ValueId weight) {
    const int at = norm.input.first - graph_.FirstNodeValue();
    Inserter in(&editor_, at);
    const auto wide = [&](ValueId v) { return in.Cast(v, kFloat32); };
    const DType dtype = graph_.nodes[at].outputs[0].dtype;
    ValueId scale = in.Map("aten::rsqrt", in.AddNumber(wide(norm.variance), norm.eps));
    if (norm.weight) scale = in.Multiply(scale, wide(*norm.weight));
    ValueId bias;
    if (convolution.bias) {
      bias = in.Multiply(in.Subtract(wide(*convolution.bias), wide(norm.mean)), scale);
    } else {
      bias = in.Map("aten::neg", in.Multiply(wide(norm.mean), scale));
    }
    if (norm.bias) bias = in.Add(bias, wide(*norm.bias));
    const int rank = static_cast<int>(in.TypeOf(weight).sizes.size());
    const ValueId scaled = in.Multiply(wide(weight), in.AlongDim(scale, 0, rank));
    Node& node = graph_.nodes[at];
    Argument(&node, "weight") = ValueArg(in.Cast(scaled, dtype));
    Argument(&node, "bias") = ValueArg(in.Cast(bias, dtype));
  }

  Graph& graph_;
  GraphEditor editor_;
};

}  // namespace

int FoldBatchNorm(const v1::Target&, Graph* graph) { return Folder(graph).Run(); }

}  // namespace tensord::compiler
