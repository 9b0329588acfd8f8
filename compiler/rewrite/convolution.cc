// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/convolution.h"

#include <algorithm>
#include <string_view>

#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

std::optional<std::vector<int64_t>> Constants(const ArgumentValue& list) {
  std::vector<int64_t> numbers;
  for (const ArgumentValue& item : list.items) {
    const auto number = item.integer.AsConstant();
    if (item.kind != ArgumentValue::kInteger || !number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (list.kind != ArgumentValue::kList || numbers.empty()) return std::nullopt;
  return numbers;
}

// The arguments that all forms have by the same names; the image is called `image`.
std::optional<Convolution> ConvolutionOf(const Node& node, std::string_view image) {
  const ArgumentValue &input = Argument(node, image), &weight = Argument(node, "weight");
  const auto stride = Constants(Argument(node, "stride"));
  const auto padding = Constants(Argument(node, "padding"));
  const auto dilation = Constants(Argument(node, "dilation"));
  const auto groups = Argument(node, "groups").integer.AsConstant();
  if (!IsValue(input) || !IsValue(weight) || !stride || !padding || !dilation || !groups) {
    return std::nullopt;
  }
  return Convolution{.input = ValueOf(input),
                     .weight = ValueOf(weight),
                     .stride = *stride,
                     .padding = *padding,
                     .dilation = *dilation,
                     .groups = *groups};
}

bool IsTransposed(const Node& node) { return !Argument(node, "transposed").integer.Is(0); }

}  // namespace

std::optional<Convolution> AsConvolution(const Node& node) {
  if (node.op != "aten::convolution" || node.outputs.size() != 1 || IsTransposed(node)) {
    return std::nullopt;
  }
  auto convolution = ConvolutionOf(node, "input");
  if (convolution) convolution->bias = OptionalValueOf(Argument(node, "bias"));
  return convolution;
}

std::optional<Convolution> AsConvolution(const GraphEditor& editor, ValueId value) {
  const Node* node = editor.Producer(value.first);
  return node == nullptr ? std::nullopt : AsConvolution(*node);
}

std::optional<Convolution> AsConvolutionOfBackward(const Node& node) {
  if (node.op != "aten::convolution_backward" || IsTransposed(node)) return std::nullopt;
  return ConvolutionOf(node, "input");
}

std::optional<Convolution> AsConvolutionOfFused(const Node& node) {
  if (node.op != "aten::cudnn_convolution_relu" && node.op != "aten::cudnn_convolution_add_relu") {
    return std::nullopt;
  }
  auto convolution = ConvolutionOf(node, "self");
  if (convolution) convolution->bias = OptionalValueOf(Argument(node, "bias"));
  return convolution;
}

bool IsPointwise16Bit(const Convolution& convolution, const TensorType& image,
                      const TensorType& weight) {
  const bool is_pointwise = convolution.groups == 1 && AllAre(convolution.stride, 1) &&
                            AllAre(convolution.padding, 0) && weight.sizes.size() == 4 &&
                            weight.sizes[2].Is(1) && weight.sizes[3].Is(1);
  if (!is_pointwise || !Is16BitFloat(image.dtype) || weight.dtype != image.dtype) return false;
  const Expr vector(16 / ItemSize(image.dtype));
  return IsChannelsLast(image) && sym::Mod(weight.sizes[0], vector).Is(0) &&
         sym::Mod(weight.sizes[1], vector).Is(0);
}

bool AllAre(const std::vector<int64_t>& numbers, int64_t value) {
  return std::all_of(numbers.begin(), numbers.end(), [value](int64_t n) { return n == value; });
}

std::vector<Expr> ChannelsLastStrides(const std::vector<Expr>& sizes) {
  const Expr &c = sizes[1], &h = sizes[2], &w = sizes[3];
  return {h * w * c, Expr(1), w * c, c};
}

bool IsChannelsLast(const TensorType& type) {
  if (type.sizes.size() != 4) return false;
  const std::vector<Expr> strides = ChannelsLastStrides(type.sizes);
  for (size_t d = 0; d < 4; ++d) {
    if (!type.sizes[d].Is(1) && !(type.strides[d] == strides[d])) return false;
  }
  return true;
}

bool SuggestsChannelsLast(const TensorType& type) {
  if (type.sizes.size() != 4 || sym::Hint(type.strides[1]) == 0) return false;
  int64_t least = 0;
  for (const int d : {1, 3, 2, 0}) {
    const int64_t size = sym::Hint(type.sizes[d]), stride = sym::Hint(type.strides[d]);
    if (size == 0 || stride < least) return false;
    if (d == 0 && least == sym::Hint(type.strides[1])) return false;
    least = stride * std::max<int64_t>(size, 1);
  }
  return true;
}

std::optional<ValueId> ConvertedFrom(const GraphEditor& editor, ValueId value) {
  const Node* node = editor.Producer(value.first);
  if (node == nullptr ||
      (node->op != "prims::convert_element_type" && node->op != "aten::_to_copy")) {
    return std::nullopt;
  }
  const ValueId from = ValueOf(FirstArgument(*node));
  const TensorType &before = editor.TypeOf(from), &after = node->outputs[0];
  if (!IsFloating(before.dtype) || !IsFloating(after.dtype) || before.device != after.device) {
    return std::nullopt;
  }
  return from;
}

}  // namespace tensord::compiler
