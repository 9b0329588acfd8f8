// SPDX-License-Identifier: Apache-2.0
// Convolutions as captured: what the passes over them ask.
#ifndef TENSORD_COMPILER_REWRITE_CONVOLUTION_H_
#define TENSORD_COMPILER_REWRITE_CONVOLUTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/graph/editor.h"

namespace tensord::compiler {

// A convolution of two or more dimensions, of which forms there are several operators.
struct Convolution {
  ValueId input, weight;
  std::optional<ValueId> bias;
  std::vector<int64_t> stride, padding, dilation;  // one number may stand for all dimensions
  int64_t groups = 1;
};

// A convolution that is not transposed and whose numbers are constants; nothing for any other node.
std::optional<Convolution> AsConvolution(const Node& node);
// The same of the node that makes a value; nothing where none does.
std::optional<Convolution> AsConvolution(const GraphEditor& editor, ValueId value);
// What aten::convolution_backward is the gradient of; without its bias.
std::optional<Convolution> AsConvolutionOfBackward(const Node& node);
// What cuDNN's fused calls compute before they add and clamp.
std::optional<Convolution> AsConvolutionOfFused(const Node& node);

// A convolution of single pixels (1x1, stride 1) of 16-bit floats, whose channels are whole 16
// bytes: a product of matrices that lie in memory as they are, for which the library has fast
// kernels.
bool IsPointwise16Bit(const Convolution& convolution, const TensorType& image,
                      const TensorType& weight);
bool AllAre(const std::vector<int64_t>& numbers, int64_t value);

// ---- Channels-last memory of rank 4: [N, C, H, W] with the channels innermost.
std::vector<Expr> ChannelsLastStrides(const std::vector<Expr>& sizes);
// In memory; dimensions of size 1 do not matter.
bool IsChannelsLast(const TensorType& type);
// As torch's suggest_memory_format decides, by which its library calls choose their results'
// layout: where sizes of 1 leave it open, the layout is row-major.
bool SuggestsChannelsLast(const TensorType& type);

// ---- Around a node.
// The operand of a conversion between real floating types on one device; nothing for other nodes.
std::optional<ValueId> ConvertedFrom(const GraphEditor& editor, ValueId value);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CONVOLUTION_H_
