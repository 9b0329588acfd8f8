// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/cross_entropy.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// What was cast to another type of float on the same device, or the value itself.
int BeforeCasts(const GraphEditor& editor, int value) {
  for (const Node* node = editor.Producer(value); node != nullptr && node->op == "aten::_to_copy";
       node = editor.Producer(value)) {
    const ValueId from = ValueOf(Argument(*node, "self"));
    const TensorType &narrow = node->outputs[0], &wide = editor.TypeOf(from);
    if (from.second != 0 || !IsFloating(narrow.dtype) || !IsFloating(wide.dtype) ||
        narrow.device != wide.device) {
      break;
    }
    value = from.first;
  }
  return value;
}

// The node that makes the loss's gradient, where the classes are the dimension of the softmax and
// what it reads is the same where the softmax is.
const Node* LossOf(const GraphEditor& editor, int i) {
  const Node& softmax = editor.node(i);
  if (softmax.op != "aten::_log_softmax_backward_data") return nullptr;
  const int gradient = BeforeCasts(editor, Argument(softmax, "grad_output").value);
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
