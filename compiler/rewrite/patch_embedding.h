// SPDX-License-Identifier: Apache-2.0
// A convolution whose windows neither overlap nor leave anything out, over an image of few channels
// (the patches of vision transformers), is one matrix product: patches times weights. The library's
// convolutions want many channels; here they run at a tenth of the product's speed.
//
//   [N, C, H, W] -> [N H/kh W/kw, C kh kw], one copy that fuses with the image's conversion
//   times [C kh kw, O], a view of the weights
//   -> [N, O, H/kh, W/kw], a view: channels-last, as the tokens that are made of it are stored
//
// The gradient of the weights is a product of the same patches. What the graph gives out as well,
// as a training graph does for backward, is copied into the layout that it has in eager.
//
// With many channels the copy of the patches would cost more than it brings. Must come before
// channels_last.
#ifndef TENSORD_COMPILER_REWRITE_PATCH_EMBEDDING_H_
#define TENSORD_COMPILER_REWRITE_PATCH_EMBEDDING_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of convolutions that became products.
int PatchEmbedding(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_PATCH_EMBEDDING_H_
