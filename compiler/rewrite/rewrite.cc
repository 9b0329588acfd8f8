// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/rewrite.h"

#include "compiler/rewrite/channels_last.h"
#include "compiler/rewrite/common_subexpressions.h"
#include "compiler/rewrite/convolution_bias.h"
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
      {"common_subexpressions", CommonSubexpressions, /*for_cuda=*/true, /*for_cpu=*/false},
      {"cross_entropy", CrossEntropy, /*for_cuda=*/true, /*for_cpu=*/true},
      {"embedding_sum", EmbeddingSum, /*for_cuda=*/true, /*for_cpu=*/true},
      {"fold_batch_norm", FoldBatchNorm, /*for_cuda=*/true, /*for_cpu=*/false},
      {"patch_embedding", PatchEmbedding, /*for_cuda=*/true, /*for_cpu=*/false},
      {"channels_last", ChannelsLast, /*for_cuda=*/true, /*for_cpu=*/false},
      {"space_to_depth", SpaceToDepth, /*for_cuda=*/true, /*for_cpu=*/false},
      {"convolution_epilogues", ConvolutionEpilogues, /*for_cuda=*/true, /*for_cpu=*/false},
      {"pointwise_convolution", PointwiseConvolution, /*for_cuda=*/true, /*for_cpu=*/false},
      {"product_epilogues", ProductEpilogues, /*for_cuda=*/true, /*for_cpu=*/false},
      {"convolution_bias", ConvolutionBias, /*for_cuda=*/true, /*for_cpu=*/false},
      // Behind everything that makes products.
      {"pad_products", PadProducts, /*for_cuda=*/true, /*for_cpu=*/false},
  };
  return passes;
}

}  // namespace tensord::compiler
