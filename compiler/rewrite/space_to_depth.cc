// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/space_to_depth.h"

#include <array>
#include <optional>

#include "compiler/graph/layout.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

// More of them fill the library's vectors by themselves.
constexpr int64_t kMostChannels = 4;
// Tensor cores take channels in runs of 16 bytes; blocks of fewer than two would be padded again.
constexpr int64_t kRun = 8, kFewestInBlock = 2 * kRun;

// One dimension of the image.
struct Axis {
  int64_t size, kernel, stride, padding, results;

  int64_t kernel_blocks() const { return sym::CeilDiv(kernel, stride); }
  int64_t blocks() const { return results - 1 + kernel_blocks(); }
  // Zeros behind the filter, and behind the image; of the image pixels may be left over that no
  // window reaches: then it is negative.
  int64_t behind_kernel() const { return kernel_blocks() * stride - kernel; }
  int64_t behind_image() const { return blocks() * stride - padding - size; }
};

struct Blocks {
  std::array<Axis, 2> axes;  // height, width
  int64_t channels;          // of a pixel, padded
  int64_t depth() const { return channels * axes[0].stride * axes[1].stride; }
};

std::optional<Axis> AxisOf(const Convolution& convolution, const TensorType& image,
                           const TensorType& weight, const TensorType& result, int which) {
  const auto size = image.sizes[2 + which].AsConstant();
  const auto kernel = weight.sizes[2 + which].AsConstant();
  const auto results = result.sizes[2 + which].AsConstant();
  if (!size || !kernel || !results || *results < 1) return std::nullopt;
  const auto along = [which](const std::vector<int64_t>& numbers) {
    return which == 0 ? numbers.front() : numbers.back();
  };
  const Axis axis{*size, *kernel, along(convolution.stride), along(convolution.padding), *results};
  // Windows that do not overlap are the business of patch_embedding.
  if (axis.stride < 2 || axis.kernel <= axis.stride) return std::nullopt;
  return axis;
}

std::optional<Blocks> BlocksOf(const Convolution& convolution, const TensorType& image,
                               const TensorType& weight, const TensorType& result) {
  if (image.sizes.size() != 4 || !Is16BitFloat(image.dtype) || convolution.groups != 1 ||
      !AllAre(convolution.dilation, 1)) {
    return std::nullopt;
  }
  const auto channels = image.sizes[1].AsConstant(), outputs = weight.sizes[0].AsConstant();
  if (!channels || *channels > kMostChannels || !outputs || *outputs % kRun != 0) {
    return std::nullopt;
  }
  const auto height = AxisOf(convolution, image, weight, result, 0);
  const auto width = AxisOf(convolution, image, weight, result, 1);
  if (!height || !width) return std::nullopt;
  Blocks blocks{.axes = {*height, *width}, .channels = 1};
  // Powers of two: what a thread of the copy stores is whole pixels.
  while (blocks.channels < *channels || blocks.depth() % kRun != 0 ||
         blocks.depth() < kFewestInBlock) {
    blocks.channels *= 2;
  }
  return blocks;
}

// In microseconds.
double Gain(const SpaceToDepthCosts& costs, const Blocks& blocks, const TensorType& result) {
  const auto results = static_cast<double>(ElementsHint(result));
  const auto& [height, width] = blocks.axes;
  const auto before = static_cast<double>(kRun * height.kernel * width.kernel);
  const auto after =
      static_cast<double>(blocks.depth() * height.kernel_blocks() * width.kernel_blocks());
  return results * (before / costs.rate_of_few_channels - after / costs.rate_of_blocks);
}

// The value that a copy into another layout is made of, if node `reader` still finds it as it was.
ValueId Uncopied(const GraphEditor& editor, int reader, ValueId value) {
  const Node* node = editor.Producer(value.first);
  if (node == nullptr || node->op != "aten::clone") return value;
  const int copy = editor.NodeOfValue(value.first);
  if (!editor.uses().ReadsTheSameAt(copy, reader)) return value;
  return Uncopied(editor, reader, ValueOf(Argument(*node, "self")));
}

// [A, C, h * height.stride, w * width.stride], after zeros were added or pixels cut off, to
// [A, C' * height.stride * width.stride, h, w] in channels-last memory: behind each other lie the
// rows of a block, in these its pixels, and in these the channels.
ValueId InBlocks(Inserter& in, ValueId value, const Blocks& blocks, std::array<int64_t, 2> before,
                 std::array<int64_t, 2> behind) {
  const std::vector<Expr> sizes = in.TypeOf(value).sizes;
  const int64_t more_channels = blocks.channels - *sizes[1].AsConstant();
  const ValueId padded =
      in.Pad(value, {{0, 0}, {0, more_channels}, {before[0], behind[0]}, {before[1], behind[1]}});
  const std::vector<Expr> whole = in.TypeOf(padded).sizes;
  const auto& [height, width] = blocks.axes;
  const Expr rows = sym::FloorDiv(whole[2], Expr(height.stride));
  const Expr columns = sym::FloorDiv(whole[3], Expr(width.stride));
  const ValueId split =
      in.View(padded, {whole[0], whole[1], rows, Expr(height.stride), columns, Expr(width.stride)});
  const ValueId permuted = in.Permute(split, {0, 2, 4, 3, 5, 1});
  const ValueId copy = in.InLayout(permuted, ContiguousStrides(in.TypeOf(permuted).sizes));
  return in.Permute(in.View(copy, {whole[0], rows, columns, Expr(blocks.depth())}), {0, 3, 1, 2});
}

class Mover {
 public:
  Mover(const SpaceToDepthCosts& costs, Graph* graph)
      : costs_(costs), graph_(*graph), editor_(graph) {}

  int Run() {
    int count = 0;
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      count += Try(i);
    }
    editor_.Finish();
    return count;
  }

 private:
  bool Try(int i) {
    Node& node = graph_.nodes[i];
    const auto convolution = AsConvolution(node);
    if (!convolution || !editor_.MayRewrite(i)) return false;
    const auto blocks = BlocksOf(*convolution, editor_.TypeOf(convolution->input),
                                 editor_.TypeOf(convolution->weight), node.outputs[0]);
    if (!blocks || Gain(costs_, *blocks, node.outputs[0]) < costs_.least_gain) return false;
    const auto& [height, width] = blocks->axes;
    Inserter in(&editor_, i);
    const ValueId image =
        InBlocks(in, Uncopied(editor_, i, convolution->input), *blocks,
                 {height.padding, width.padding}, {height.behind_image(), width.behind_image()});
    const ValueId weight = InBlocks(in, Uncopied(editor_, i, convolution->weight), *blocks, {0, 0},
                                    {height.behind_kernel(), width.behind_kernel()});
    Argument(&node, "input") = ValueArg(image);
    Argument(&node, "weight") = ValueArg(weight);
    Argument(&node, "stride") = IntegersArg({Expr(1), Expr(1)});
    Argument(&node, "padding") = IntegersArg({Expr(0), Expr(0)});
    KeepLayout(i);
    return true;
  }

  // The library answers in the layout of the image. Where another was promised, a copy has it: the
  // library would have made the same one.
  void KeepLayout(int i) {
    TensorType& type = graph_.nodes[i].outputs[0];
    if (IsChannelsLast(type)) return;
    const std::vector<Expr> promised = type.strides;
    type.strides = ChannelsLastStrides(type.sizes);
    const ValueId value(editor_.ValueOfNode(i), 0);
    Inserter in(&editor_, i + 1);
    editor_.Replace(value, in.InLayout(value, promised));
  }

  const SpaceToDepthCosts& costs_;
  Graph& graph_;
  GraphEditor editor_;
};

}  // namespace

int SpaceToDepth(const SpaceToDepthCosts& costs, Graph* graph) { return Mover(costs, graph).Run(); }

int SpaceToDepth(const v1::Target&, Graph* graph) {
  return SpaceToDepth(SpaceToDepthCosts{}, graph);
}

}  // namespace tensord::compiler
