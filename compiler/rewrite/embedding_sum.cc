#include "compiler/rewrite/embedding_sum.h"

#include "compiler/graph/editor.h"

namespace tensord::compiler {
namespace {

// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
enum EmbeddingArgument : size_t { kGrad, kIndices, kRows, kPadding, kScaled, kEmbeddingArguments };

// The node that makes an embedding's gradient, where the argument is that and nothing else reads
// it.
const Node* EmbeddingOf(const GraphEditor& editor, const ArgumentValue& arg) {
  if (arg.kind != ArgumentValue::kValue) return nullptr;
  const Node* node = editor.Producer(arg.value);
  if (node == nullptr || node->op != "aten::embedding_dense_backward" ||
      node->args.size() != kEmbeddingArguments || !node->args[kScaled].integer.Is(0)) {
    return nullptr;
  }
  return editor.Uses({arg.value, arg.output}) == 1 ? node : nullptr;
}

bool SameType(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes;
}

}  // namespace

int AddEmbeddings(const v1::Target&, Graph* graph) {
  GraphEditor editor(graph);
  for (int i = 0; i < static_cast<int>(graph->nodes.size()); ++i) {
    const Node& sum = graph->nodes[i];
    // add.Tensor(self, other, alpha)
    if (!editor.Runs(i) || sum.op != "aten::add.Tensor" || sum.args.size() != 3 ||
        !IsOne(sum.args[2])) {
      continue;
    }
    for (const size_t which : {0, 1}) {
      const Node* embedding = EmbeddingOf(editor, sum.args[which]);
      const ArgumentValue& other = sum.args[1 - which];
      if (embedding == nullptr || other.kind != ArgumentValue::kValue ||
          !SameType(editor.TypeOf({other.value, other.output}), sum.outputs[0]) ||
          !SameType(embedding->outputs[0], sum.outputs[0])) {
        continue;
      }
      const auto& args = embedding->args;
      Node added{.op = "tensord::embedding_added",
                 .name = sum.name,
                 .args = {other, args[kGrad], args[kIndices], args[kRows], args[kPadding]},
                 .outputs = sum.outputs};
      editor.Replace({editor.ValueOfNode(i), 0}, editor.Insert(i, std::move(added)));
      break;
    }
  }
  return editor.Finish();
}

}  // namespace tensord::compiler
