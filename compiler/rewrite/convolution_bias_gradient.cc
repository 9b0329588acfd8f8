// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_bias_gradient.h"

#include "compiler/graph/arguments.h"
#include "compiler/graph/editor.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

constexpr int kBias = 2;  // of the results

// Whether the sum of `gradient` over all dimensions but the channels is what the node gives.
bool IsSumOf(const TensorType& gradient, const TensorType& image, const TensorType& bias) {
  // Of images without channels eager gives zeros, whatever the gradient is.
  const bool has_channels = image.sizes.size() > 2 && image.sizes[1].AsConstant().value_or(0) > 0;
  return has_channels && gradient.sizes.size() == image.sizes.size() &&
         IsFloating(gradient.dtype) && bias.dtype == gradient.dtype && bias.sizes.size() == 1 &&
         bias.sizes[0] == gradient.sizes[1];
}

}  // namespace

int ConvolutionBiasGradient(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    Node& node = graph->nodes[i];
    if (node.op != "aten::convolution_backward" || node.outputs.size() != 3) continue;
    const ValueId bias(editor.ValueOfNode(i), kBias);
    if (editor.uses().Count(bias) == 0 || !editor.MayRewrite(i)) continue;
    const ArgumentValue &of = Argument(node, "grad_output"), &mask = Argument(node, "output_mask");
    const TensorType& image = editor.TypeOf(ValueOf(Argument(node, "input")));
    if (mask.items.size() != 3 ||
        !IsSumOf(editor.TypeOf(ValueOf(of)), image, node.outputs[kBias])) {
      continue;
    }
    // Behind the call, for which the gradient is in memory.
    Inserter in(&editor, i + 1, i);
    editor.Replace(bias, in.ChannelSums(ValueOf(of)));
    Argument(&node, "output_mask").items[kBias] = BooleanArg(false);
    Argument(&node, "bias_sizes") = NoneArgument();
    node.outputs[kBias] = {};
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
