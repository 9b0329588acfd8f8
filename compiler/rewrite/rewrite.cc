// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/rewrite.h"

#include "compiler/rewrite/channels_last.h"
#include "compiler/rewrite/common_subexpressions.h"
#include "compiler/rewrite/convolution_bias.h"
#include "compiler/rewrite/convolution_bias_gradient.h"
#include "compiler/rewrite/convolution_epilogues.h"
#include "compiler/rewrite/cross_entropy.h"
#include "compiler/rewrite/embedding_sum.h"
#include "compiler/rewrite/fold_batch_norm.h"
#include "compiler/rewrite/pad_products.h"
#include "compiler/rewrite/patch_embedding.h"
#include "compiler/rewrite/pointwise_convolution.h"
#include "compiler/rewrite/product_epilogues.h"
#include "compiler/rewrite/space_to_depth.h"

namespace tensord::compiler {

const std::vector<GraphRewrite>& RewritePasses() {
  static const std::vector<GraphRewrite> passes = {
      // First: others count who reads a value, and equal values are one then.
      {"common_subexpressions", CommonSubexpressions, Targets::kCuda},
      {"cross_entropy", CrossEntropy, Targets::kBoth, Roundings::kOther},
      {"embedding_sum", EmbeddingSum, Targets::kBoth, Roundings::kOther},
      // Before all others over convolutions, which are then what they stay.
      {"fold_batch_norm", FoldBatchNorm, Targets::kCuda, Roundings::kOther},
      // Before channels_last: the patches of a row-major image need no other copy of it.
      {"patch_embedding", PatchEmbedding, Targets::kCuda},
      // Before space_to_depth and convolution_epilogues, which go by the layout of results.
      {"channels_last", ChannelsLast, Targets::kCuda},
      // Before convolution_epilogues, whose calls take whole 16 bytes of channels.
      {"space_to_depth", SpaceToDepth, Targets::kCuda},
      // Before pointwise_convolution, which makes products of its calls, and convolution_bias,
      // which would add the biases separately.
      {"convolution_epilogues", ConvolutionEpilogues, Targets::kCuda, Roundings::kOther},
      // Before product_epilogues and pad_products: it makes products.
      {"pointwise_convolution", PointwiseConvolution, Targets::kCuda},
      // Before pad_products, behind which sums read slices of products.
      {"product_epilogues", ProductEpilogues, Targets::kCuda, Roundings::kOther},
      // Behind all that take biases into calls.
      {"convolution_bias", ConvolutionBias, Targets::kCuda},
      // Behind those that make products of such calls.
      {"convolution_bias_gradient", ConvolutionBiasGradient, Targets::kBoth},
      // Behind all that make products.
      {"pad_products", PadProducts, Targets::kCuda},
  };
  return passes;
}

}  // namespace tensord::compiler
