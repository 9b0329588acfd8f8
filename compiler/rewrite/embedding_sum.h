// SPDX-License-Identifier: Apache-2.0
// An embedding's gradient that is only added to another tensor is added to that row by row, as
// where the table is a vocabulary's weights too.
//
// Ensures: an embedding's gradient that is only added to another tensor is
// `tensord::embedding_added(that, grad_output, indices, num_weights, padding_idx)`: rows are added
// to what is there, and no table of zeros is written and read for them.
#ifndef TENSORD_COMPILER_REWRITE_EMBEDDING_SUM_H_
#define TENSORD_COMPILER_REWRITE_EMBEDDING_SUM_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of sums that were fused with an embedding's gradient.
int EmbeddingSum(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_EMBEDDING_SUM_H_
