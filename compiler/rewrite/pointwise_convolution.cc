// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/pointwise_convolution.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/graph/layout.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

struct PlainForward {
  Convolution convolution;
  std::optional<ValueId> residual;
  bool relu = false;
};

std::optional<PlainForward> AsForward(const Node& node) {
  if (auto plain = AsConvolution(node)) return PlainForward{.convolution = *std::move(plain)};
  const auto convolution = AsConvolutionOfFused(node);
  if (!convolution || !convolution->bias) return std::nullopt;
  PlainForward forward{.convolution = *convolution, .relu = true};
  if (node.op == "aten::cudnn_convolution_add_relu") {
    const ArgumentValue& factor = Argument(node, "alpha");
    if (factor.kind != ArgumentValue::kNone && !IsOne(factor)) return std::nullopt;
    forward.residual = ValueOf(Argument(node, "z"));
  }
  return forward;
}

// Images whose pixels follow one another, each with its channels: exactly so, as others see it.
bool IsRowsOfPixels(const TensorType& type) {
  return type.sizes.size() == 4 && type.strides == ChannelsLastStrides(type.sizes);
}

class PointwiseConvolutionPass {
 public:
  explicit PointwiseConvolutionPass(Graph* graph) : graph_(*graph), editor_(graph) {}

  int Run() {
    int count = 0;
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      count += TryForward(i) || TryBackward(i);
    }
    editor_.Finish();
    return count;
  }

 private:
  bool IsProduct(const Convolution& convolution) const {
    return IsPointwise16Bit(convolution, editor_.TypeOf(convolution.input),
                            editor_.TypeOf(convolution.weight));
  }

  // What is added must be images of the result's sizes. The calls that the product comes to are one
  // where all sizes are known; otherwise cuDNN's call is better.
  bool CanAdd(ValueId residual, const TensorType& result) const {
    const TensorType& type = editor_.TypeOf(residual);
    return type.sizes == result.sizes && type.dtype == result.dtype && IsChannelsLast(type) &&
           std::all_of(type.sizes.begin(), type.sizes.end(),
                       [](const Expr& size) { return size.IsConstant(); });
  }

  bool TryForward(int i) {
    const auto forward = AsForward(graph_.nodes[i]);
    if (!forward || !IsProduct(forward->convolution) || !editor_.MayRewrite(i)) return false;
    const TensorType& result = graph_.nodes[i].outputs[0];
    if (!IsRowsOfPixels(result)) return false;
    if (forward->residual && !CanAdd(*forward->residual, result)) return false;
    const Convolution& convolution = forward->convolution;
    Inserter in(&editor_, i);
    const ValueId pixels = Pixels(in, convolution.input);
    const ValueId weights = in.Permute(Matrix(in, convolution.weight), {1, 0});
    ValueId product;
    if (forward->residual) {
      const ValueId residual = Pixels(in, *forward->residual);
      product = in.Node("tensord::residual_product",
                        {{"residual", ValueArg(residual)},
                         {"mat1", ValueArg(pixels)},
                         {"mat2", ValueArg(weights)},
                         {"bias", ValueArg(*convolution.bias)}},
                        in.TypeOf(residual));
    } else if (forward->relu) {
      product = in.Product(pixels, weights, convolution.bias, "aten::_addmm_activation",
                           {{"use_gelu", BooleanArg(false)}});
    } else {
      product = in.Product(pixels, weights, convolution.bias);
    }
    ReplaceImages(in, {editor_.ValueOfNode(i), 0}, product);
    return true;
  }

  bool TryBackward(int i) {
    const Node& node = graph_.nodes[i];
    const auto convolution = AsConvolutionOfBackward(node);
    if (!convolution || !IsProduct(*convolution) || !editor_.MayRewrite(i)) return false;
    const ValueId image(editor_.ValueOfNode(i), 0), weight(image.first, 1), bias(image.first, 2);
    const ValueId of = ValueOf(Argument(node, "grad_output"));
    if (!IsChannelsLast(editor_.TypeOf(of))) return false;
    const bool wants_image = editor_.uses().Count(image) > 0,
               wants_weight = editor_.uses().Count(weight) > 0;
    if (wants_image && !IsRowsOfPixels(node.outputs[0])) return false;
    if (wants_weight && !IsMatrix(node.outputs[1])) return false;
    Inserter in(&editor_, i);
    const ValueId gradient = Pixels(in, of);
    if (wants_image) {
      ReplaceImages(in, image, in.Product(gradient, Matrix(in, convolution->weight)));
    }
    if (wants_weight) {
      const ValueId product =
          in.Product(in.Permute(gradient, {1, 0}), Pixels(in, convolution->input));
      editor_.Replace(weight, LikeWeight(in, product, node.outputs[1]));
    }
    if (editor_.uses().Count(bias) > 0) {
      editor_.Replace(bias, in.ChannelSums(gradient));
    }
    return true;
  }

  // [N, C, H, W] as [N * H * W, C]; one view for all that read it.
  ValueId Pixels(Inserter& in, ValueId images) {
    // Nodes that are added name what a product replaces as it was.
    const auto [found, is_new] = pixels_.try_emplace(images);
    if (is_new) found->second = in.Pixels(images);
    return found->second;
  }
  void ReplaceImages(Inserter& in, ValueId images, ValueId pixels) {
    pixels_[images] = pixels;
    editor_.Replace(images, in.Images(pixels, editor_.TypeOf(images).sizes));
  }
  // [O, I, 1, 1] as [O, I].
  ValueId Matrix(Inserter& in, ValueId weight) {
    const auto [found, is_new] = matrices_.try_emplace(weight);
    if (is_new) {
      const std::vector<Expr> sizes = in.TypeOf(weight).sizes;
      found->second = in.View(weight, {sizes[0], sizes[1]});
    }
    return found->second;
  }
  static bool IsMatrix(const TensorType& weight) {
    return weight.strides == ContiguousStrides(weight.sizes) ||
           weight.strides == ChannelsLastStrides(weight.sizes);
  }
  static ValueId LikeWeight(Inserter& in, ValueId matrix, const TensorType& weight) {
    const bool by_rows = weight.strides == ContiguousStrides(weight.sizes);
    return by_rows ? in.View(matrix, weight.sizes) : in.Images(matrix, weight.sizes);
  }

  Graph& graph_;
  GraphEditor editor_;
  std::map<ValueId, ValueId> pixels_;    // of images, also of those that are replaced
  std::map<ValueId, ValueId> matrices_;  // of weights
};

}  // namespace

int PointwiseConvolution(const v1::Target&, Graph* graph) {
  return PointwiseConvolutionPass(graph).Run();
}

}  // namespace tensord::compiler
