// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/embedding_sum.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// The node that makes an embedding's gradient, where the argument is that and nothing else reads
// it.
const Node* EmbeddingOf(const GraphEditor& editor, const ArgumentValue& arg) {
  if (!IsValue(arg)) return nullptr;
  const Node* node = editor.Producer(arg.value);
  if (node == nullptr || node->op != "aten::embedding_dense_backward" ||
      !Argument(*node, "scale_grad_by_freq").integer.Is(0)) {
    return nullptr;
  }
  return editor.uses().Count(ValueOf(arg)) == 1 ? node : nullptr;
}

bool SameType(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes;
}

}  // namespace

int EmbeddingSum(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& sum = graph->nodes[i];
    if (sum.op != "aten::add.Tensor" || !IsOne(Argument(sum, "alpha"))) continue;
    const ArgumentValue &self = Argument(sum, "self"), &addend = Argument(sum, "other");
    for (const bool is_self : {true, false}) {
      const Node* embedding = EmbeddingOf(editor, is_self ? self : addend);
      const ArgumentValue& other = is_self ? addend : self;
      if (embedding == nullptr || !editor.Runs(i) || !IsValue(other) ||
          !SameType(editor.TypeOf(ValueOf(other)), sum.outputs[0]) ||
          !SameType(embedding->outputs[0], sum.outputs[0])) {
        continue;
      }
      Node added{
          .op = "tensord::embedding_added",
          .name = sum.name,
          .args = {other, Argument(*embedding, "grad_output"), Argument(*embedding, "indices"),
                   Argument(*embedding, "num_weights"), Argument(*embedding, "padding_idx")},
          .outputs = sum.outputs};
      editor.Replace({editor.ValueOfNode(i), 0}, editor.Insert(i, std::move(added)));
      break;
    }
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
