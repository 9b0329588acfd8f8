// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_bias.h"

#include <algorithm>
#include <span>

#include "compiler/graph/arguments.h"
#include "compiler/graph/editor.h"
#include "compiler/graph/layout.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

// torch's own kernel for one channel a group, which adds the bias itself.
bool AddsBiasItself(const Convolution& convolution, const TensorType& weight,
                    const TensorType& result) {
  return convolution.groups > 1 && weight.sizes[1].Is(1) && !SuggestsChannelsLast(result);
}

// Whether a kernel of ours reads it.
bool IsReadByKernel(const GraphEditor& editor, ValueId value) {
  const std::span<const int> readers = editor.uses().Readers(value);
  const int nodes = static_cast<int>(editor.graph().nodes.size());
  return std::any_of(readers.begin(), readers.end(), [&](int reader) {
    return reader < nodes && IsGenerated(editor.node(reader));
  });
}

}  // namespace

int ConvolutionBias(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    Node& node = graph->nodes[i];
    const auto convolution = AsConvolution(node);
    const ValueId value(editor.ValueOfNode(i), 0);
    if (!convolution || !convolution->bias ||
        AddsBiasItself(*convolution, editor.TypeOf(convolution->weight), node.outputs[0]) ||
        !RunsOnTensorCores(node.outputs[0].dtype) || !editor.MayRewrite(i) ||
        !IsReadByKernel(editor, value)) {
      continue;
    }
    Inserter in(&editor, i + 1);
    const int rank = static_cast<int>(node.outputs[0].sizes.size());
    const ValueId sum = in.Add(value, in.AlongDim(*convolution->bias, 1, rank));
    Argument(&node, "bias") = NoneArgument();
    editor.Replace(value, sum);
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
