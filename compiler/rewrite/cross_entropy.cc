// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/cross_entropy.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// What was cast to `dtype` from a wider type of float on the same device, or the value itself: what
// autograd makes of a widening of the log-softmax. Other casts are the user's own roundings.
int BeforeCast(const GraphEditor& editor, int value, DType dtype) {
  const Node* node = editor.Producer(value);
  if (node == nullptr || node->op != "aten::_to_copy") return value;
  const ValueId from = ValueOf(Argument(*node, "self"));
  const TensorType &to_type = node->outputs[0], &from_type = editor.TypeOf(from);
  const bool narrows = to_type.dtype == dtype && IsFloating(dtype) && IsFloating(from_type.dtype) &&
                       ItemSize(from_type.dtype) > ItemSize(dtype);
  return narrows && from.second == 0 && from_type.device == to_type.device ? from.first : value;
}

// The node that makes the loss's gradient, where the classes are the dimension of the softmax and
// what it reads is the same where the softmax is.
const Node* LossOf(const GraphEditor& editor, int i) {
  const Node& softmax = editor.node(i);
  if (softmax.op != "aten::_log_softmax_backward_data") return nullptr;
  const DType dtype = editor.TypeOf(ValueOf(Argument(softmax, "output"))).dtype;
  const int gradient = BeforeCast(editor, Argument(softmax, "grad_output").value, dtype);
  const Node* loss = editor.Producer(gradient);
  if (loss == nullptr ||
      (loss->op != "aten::nll_loss_backward" && loss->op != "aten::nll_loss2d_backward")) {
    return nullptr;
  }
  const auto dim = Argument(softmax, "dim").integer.AsConstant();
  const ValueId scores = ValueOf(Argument(*loss, "self"));
  const auto rank = static_cast<int64_t>(editor.TypeOf(scores).sizes.size());
  const int64_t classes = rank > 1 ? 1 : 0;
  if (!dim || (*dim + rank) % rank != classes) return nullptr;
  return editor.uses().ReadsTheSameAt(editor.NodeOfValue(gradient), i) ? loss : nullptr;
}

}  // namespace

int CrossEntropy(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& softmax = graph->nodes[i];
    const Node* loss = LossOf(editor, i);
    if (loss == nullptr || !editor.MayRewrite(i)) continue;
    NamedArguments args;
    for (const char* name : {"output", "dim", "input_dtype"}) {
      args.emplace_back(name, Argument(softmax, name));
    }
    for (const char* name :
         {"grad_output", "target", "weight", "reduction", "ignore_index", "total_weight"}) {
      args.emplace_back(name, Argument(*loss, name));
    }
    Node fused =
        MakeNode("tensord::cross_entropy_backward", softmax.name, args, softmax.outputs[0]);
    editor.Replace({editor.ValueOfNode(i), 0}, editor.Insert(i, std::move(fused)));
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
