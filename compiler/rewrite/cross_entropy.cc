#include "compiler/rewrite/cross_entropy.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// _log_softmax_backward_data(grad, output, dim, input_dtype)
enum SoftmaxArgument : size_t { kGrad, kOutput, kDim, kInputDType, kSoftmaxArguments };
// nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight)
constexpr size_t kLossArguments = 7;
constexpr size_t kScores = 1;

// The node that makes the loss's gradient, where the classes are the dimension of the softmax.
const Node* LossOf(const GraphEditor& editor, const Node& softmax) {
  if (softmax.op != "aten::_log_softmax_backward_data" ||
      softmax.args.size() != kSoftmaxArguments ||
      softmax.args[kGrad].kind != ArgumentValue::kValue) {
    return nullptr;
  }
  const Node* loss = editor.Producer(softmax.args[kGrad].value);
  if (loss == nullptr || loss->args.size() != kLossArguments ||
      (loss->op != "aten::nll_loss_backward" && loss->op != "aten::nll_loss2d_backward") ||
      loss->args[kScores].kind != ArgumentValue::kValue) {
    return nullptr;
  }
  const auto dim = softmax.args[kDim].integer.AsConstant();
  const ArgumentValue& scores = loss->args[kScores];
  const auto rank = static_cast<int64_t>(editor.TypeOf({scores.value, scores.output}).sizes.size());
  const int64_t classes = rank > 1 ? 1 : 0;
  return dim && (*dim + rank) % rank == classes ? loss : nullptr;
}

}  // namespace

int JoinCrossEntropy(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& softmax = graph->nodes[i];
    const Node* loss = editor.Runs(i) ? LossOf(editor, softmax) : nullptr;
    if (loss == nullptr) continue;
    Node joined{.op = "tensord::cross_entropy_backward",
                .name = softmax.name,
                .args = loss->args,
                .outputs = softmax.outputs};
    joined.args[kScores] = softmax.args[kOutput];
    joined.args.push_back(softmax.args[kDim]);
    joined.args.push_back(softmax.args[kInputDType]);
    editor.Replace({editor.ValueOfNode(i), 0}, editor.Insert(i, std::move(joined)));
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
