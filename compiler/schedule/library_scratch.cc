// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/library_scratch.h"

#include <array>
#include <string_view>
#include <variant>
#include <vector>

namespace tensord::compiler {
namespace {

constexpr int64_t kFloatBytes = 4;

// [batch, heads, length, features] of an attention's operand, with lengths and features rounded up.
int64_t SumsOf(const BufferView& operand, int64_t length_unit, int64_t features_unit) {
  if (operand.sizes.size() != 4) return 0;
  const auto size = [&](int dim) { return sym::Hint(operand.sizes[dim]); };
  const auto up = [](int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; };
  return kFloatBytes * size(0) * size(1) * up(size(2), length_unit) * up(size(3), features_unit);
}

// The gradient of queries, which all blocks of keys add to.
int64_t FlashBackward(const ExternOp&, const std::vector<BufferView>& tensors) {
  constexpr int kQueries = 1;
  return SumsOf(tensors[kQueries], 128, 32);
}

// The gradient of queries in tiles, each with its lock. Those of keys and values stay in registers,
// but for heads of more than 64 features, whose sums are not counted.
int64_t EfficientBackward(const ExternOp&, const std::vector<BufferView>& tensors) {
  constexpr int kQueries = 1;
  constexpr int64_t kTile = 64, kTileBytes = kTile * kTile * kFloatBytes, kLockBytes = 16;
  return SumsOf(tensors[kQueries], kTile, kTile) / kTileBytes * (kTileBytes + kLockBytes);
}

// A depthwise convolution's: the gradient of its weight in parts, by cuDNN 9 on an H200. Seen with
// 3x3 and 7x7 of 96 to 768 channels in 16 bits, and not where images are of a few pixels.
int64_t ConvolutionBackward(const ExternOp& call, const std::vector<BufferView>& tensors) {
  constexpr int kImage = 1, kWeight = 2, kParts = 128, kFewPixels = 7 * 7;
  constexpr size_t kTransposed = 7, kMask = 10;
  const BufferView &image = tensors[kImage], &weight = tensors[kWeight];
  if (weight.sizes.size() != 4 || image.sizes.size() != 4 || call.args.size() <= kMask) return 0;
  const bool is_depthwise =
      weight.sizes[1].Is(1) && sym::Hint(weight.sizes[0]) == sym::Hint(image.sizes[1]);
  const auto* mask = std::get_if<ExternArgList>(&call.args[kMask].value);
  if (!is_depthwise || IsTrue(call.args, kTransposed) || mask == nullptr || !IsTrue(*mask, 1)) {
    return 0;
  }
  if (sym::Hint(image.sizes[2]) * sym::Hint(image.sizes[3]) < kFewPixels) return 0;
  return kParts * kFloatBytes * sym::Hint(sym::Product(weight.sizes));
}

struct Entry {
  std::string_view op;
  int64_t (*bytes)(const ExternOp& call, const std::vector<BufferView>& tensors);
};

constexpr std::array kTable = {
    Entry{"aten::_scaled_dot_product_flash_attention_backward", FlashBackward},
    Entry{"aten::_scaled_dot_product_cudnn_attention_backward", FlashBackward},
    Entry{"aten::_scaled_dot_product_efficient_attention_backward", EfficientBackward},
    Entry{"aten::convolution_backward", ConvolutionBackward},
};

}  // namespace

int64_t LibraryScratch(const ExternOp& call) {
  for (const Entry& entry : kTable) {
    if (call.op != entry.op) continue;
    std::vector<BufferView> tensors;
    ForEachView(call.args, [&](const BufferView& view) { tensors.push_back(view); });
    return tensors.size() < 3 ? 0 : entry.bytes(call, tensors);
  }
  return 0;
}

}  // namespace tensord::compiler
