// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/patch_embedding.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/graph/layout.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

// From here on the library's convolutions are fast themselves.
constexpr int64_t kManyChannels = 16;

// Height and width of a patch.
struct Patch {
  int64_t height, width;
};

std::optional<Patch> PatchOf(const Convolution& convolution, const TensorType& image,
                             const TensorType& weight) {
  if (image.sizes.size() != 4 || !RunsOnTensorCores(image.dtype)) return std::nullopt;
  if (convolution.groups != 1 || !AllAre(convolution.padding, 0) ||
      !AllAre(convolution.dilation, 1)) {
    return std::nullopt;
  }
  const auto channels = image.sizes[1].AsConstant();
  const auto height = weight.sizes[2].AsConstant(), width = weight.sizes[3].AsConstant();
  if (!channels || *channels >= kManyChannels || !height || !width || *height * *width == 1) {
    return std::nullopt;
  }
  if (convolution.stride.front() != *height || convolution.stride.back() != *width ||
      !sym::Mod(image.sizes[2], Expr(*height)).Is(0) ||
      !sym::Mod(image.sizes[3], Expr(*width)).Is(0)) {
    return std::nullopt;
  }
  return Patch{*height, *width};
}

// The image's patches and how many there are.
struct Patches {
  ValueId matrix;  // [batch * rows * columns, channels * height * width]
  Expr batch, rows, columns, length;
};

Patches PatchesOf(Inserter& in, ValueId image, const Patch& patch) {
  const std::vector<Expr> sizes = in.TypeOf(image).sizes;
  Patches out{.batch = sizes[0],
              .rows = sym::FloorDiv(sizes[2], Expr(patch.height)),
              .columns = sym::FloorDiv(sizes[3], Expr(patch.width)),
              .length = sizes[1] * Expr(patch.height * patch.width)};
  const ValueId split = in.View(
      image, {out.batch, sizes[1], out.rows, Expr(patch.height), out.columns, Expr(patch.width)});
  out.matrix = in.View(in.Permute(split, {0, 2, 4, 1, 3, 5}),
                       {out.batch * out.rows * out.columns, out.length});
  return out;
}

ValueId Forward(Inserter& in, const Convolution& convolution, const Patch& patch) {
  const Patches patches = PatchesOf(in, convolution.input, patch);
  const Expr outputs = in.TypeOf(convolution.weight).sizes[0];
  const ValueId weights =
      in.Permute(in.View(convolution.weight, {outputs, patches.length}), {1, 0});
  const ValueId tokens = in.Product(patches.matrix, weights, convolution.bias);
  return in.Images(tokens, {patches.batch, outputs, patches.rows, patches.columns});
}

struct Gradients {
  ValueId weight, bias;
};

// The image's own gradient is not asked for: it is no parameter.
Gradients Backward(Inserter& in, ValueId gradient, const Convolution& convolution,
                   const Patch& patch) {
  const Patches patches = PatchesOf(in, convolution.input, patch);
  const ValueId tokens = in.Pixels(gradient);
  const ValueId weight = in.Product(in.Permute(tokens, {1, 0}), patches.matrix);
  return {in.View(weight, in.TypeOf(convolution.weight).sizes), in.ChannelSums(tokens)};
}

class PatchEmbeddingPass {
 public:
  explicit PatchEmbeddingPass(Graph* graph) : graph_(*graph), editor_(graph) {}

  int Run() {
    int count = 0;
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      count += TryForward(i) || TryBackward(i);
    }
    editor_.Finish();
    return count;
  }

 private:
  std::optional<Patch> PatchAt(const std::optional<Convolution>& convolution) const {
    if (!convolution) return std::nullopt;
    return PatchOf(*convolution, editor_.TypeOf(convolution->input),
                   editor_.TypeOf(convolution->weight));
  }

  // Whether a node reads it, and in any layout: strided views count on eager's. Other views and
  // library calls read any layout, or a copy.
  bool IsReadInAnyLayout(ValueId value) const {
    const std::span<const int> readers = editor_.uses().Readers(value);
    const int nodes = static_cast<int>(graph_.nodes.size());
    return !readers.empty() && readers.front() < nodes &&
           std::none_of(readers.begin(), readers.end(), [&](int reader) {
             return reader < nodes && graph_.nodes[reader].op == "aten::as_strided";
           });
  }
  // The graph's outputs are as eager lays them out.
  void CopyForOutputs(Inserter& in, ValueId value, ValueId images) {
    std::optional<ValueId> copy;
    for (ArgumentValue& output : graph_.outputs) {
      if (OptionalValueOf(output) != value) continue;
      if (!copy) copy = in.InLayout(images, editor_.TypeOf(value).strides);
      output = ValueArg(*copy);
    }
  }

  bool TryForward(int i) {
    const auto convolution = AsConvolution(graph_.nodes[i]);
    const auto patch = PatchAt(convolution);
    const ValueId value(editor_.ValueOfNode(i), 0);
    if (!patch || !editor_.MayRewrite(i) || !IsReadInAnyLayout(value)) return false;
    Inserter in(&editor_, i);
    const ValueId images = Forward(in, *convolution, *patch);
    CopyForOutputs(in, value, images);
    editor_.Replace(value, images);
    return true;
  }

  bool TryBackward(int i) {
    const Node& node = graph_.nodes[i];
    const auto convolution = AsConvolutionOfBackward(node);
    const auto patch = PatchAt(convolution);
    const int value = editor_.ValueOfNode(i);
    if (!patch || !editor_.MayRewrite(i) || editor_.uses().Count({value, 0}) > 0) return false;
    // Their gradients lie as the weights do.
    const TensorType& weight = editor_.TypeOf(convolution->weight);
    if (weight.strides != ContiguousStrides(weight.sizes)) return false;
    Inserter in(&editor_, i);
    const ValueId gradient = ValueOf(Argument(node, "grad_output"));
    const Gradients gradients = Backward(in, gradient, *convolution, *patch);
    editor_.Replace({value, 1}, gradients.weight);
    editor_.Replace({value, 2}, gradients.bias);
    return true;
  }

  Graph& graph_;
  GraphEditor editor_;
};

}  // namespace

int PatchEmbedding(const v1::Target&, Graph* graph) { return PatchEmbeddingPass(graph).Run(); }

}  // namespace tensord::compiler
