// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/cross_entropy.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// The node that makes the loss's gradient, where the classes are the dimension of the softmax.
const Node* LossOf(const GraphEditor& editor, const Node& softmax) {
  if (softmax.op != "aten::_log_softmax_backward_data") return nullptr;
  const Node* loss = editor.Producer(Argument(softmax, "grad_output").value);
  if (loss == nullptr ||
      (loss->op != "aten::nll_loss_backward" && loss->op != "aten::nll_loss2d_backward")) {
    return nullptr;
  }
  const auto dim = Argument(softmax, "dim").integer.AsConstant();
  const ValueId scores = ValueOf(Argument(*loss, "self"));
  const auto rank = static_cast<int64_t>(editor.TypeOf(scores).sizes.size());
  const int64_t classes = rank > 1 ? 1 : 0;
  return dim && (*dim + rank) % rank == classes ? loss : nullptr;
}

}  // namespace

int CrossEntropy(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& softmax = graph->nodes[i];
    const Node* loss = LossOf(editor, softmax);
    if (loss == nullptr || !editor.Runs(i)) continue;
    Node joined{.op = "tensord::cross_entropy_backward",
                .name = softmax.name,
                .args = loss->args,  // and of the softmax
                .outputs = softmax.outputs};
    joined.args.insert(joined.args.end(),
                       {Argument(softmax, "dim"), Argument(softmax, "input_dtype")});
    Argument(&joined, "output") = Argument(softmax, "output");
    editor.Replace({editor.ValueOfNode(i), 0}, editor.Insert(i, std::move(joined)));
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
