// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution_bias.h"

#include <set>

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

// Values that a kernel of ours reads.
std::set<ValueId> ReadByKernels(const Graph& graph) {
  std::set<ValueId> values;
  for (const Node& node : graph.nodes) {
    if (!IsGenerated(node)) continue;
    ForEachValue(node.args, [&](const ArgumentValue& arg) { values.insert(ValueOf(arg)); });
  }
  return values;
}

}  // namespace

int ConvolutionBias(const v1::Target&, Graph* graph) {
  const std::set<ValueId> read = ReadByKernels(*graph);
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    Node& node = graph->nodes[i];
    const auto convolution = AsConvolution(node);
    const ValueId value(editor.ValueOfNode(i), 0);
    if (!convolution || !convolution->bias ||
        AddsBiasItself(*convolution, editor.TypeOf(convolution->weight), node.outputs[0]) ||
        !RunsOnTensorCores(node.outputs[0].dtype) || !editor.Runs(i) || read.count(value) == 0) {
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
