// SPDX-License-Identifier: Apache-2.0
// A batch norm at inference goes into the weights and the bias of the convolution before it.
//
// A batch norm at inference is a multiplication and an addition per channel: behind a convolution
// they go into its weights and its bias, and no kernel reads and writes the activations for them.
//
// The weights are scaled in every call: they are inputs, which may change between calls. That costs
// a pass over them, which autocast's conversion pays already; they are rounded once, to the
// convolution's type.
#ifndef TENSORD_COMPILER_REWRITE_FOLD_BATCH_NORM_H_
#define TENSORD_COMPILER_REWRITE_FOLD_BATCH_NORM_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of batch norms that went into a convolution.
int FoldBatchNorm(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_FOLD_BATCH_NORM_H_
