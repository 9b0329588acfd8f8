// SPDX-License-Identifier: Apache-2.0
// Attention whose scores are never in memory. Between the products and the others stand operators
// of every score (decompose/attention_chains.h); without code of ours the job's own run, with all
// scores in memory (client/tensord/attention_operators.py).
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kAttentionRows[] = {
    {"tensord::attention_products(Tensor a, Tensor b, int step)"},
    {"tensord::attention(Tensor masked, Tensor unmasked, Tensor value, Tensor[] blocks, int[] "
     "sizes, int[] order)"},
    {"tensord::attention_query_gradient(Tensor masked, Tensor unmasked, Tensor key, Tensor[] "
     "blocks, int[] sizes, int[] order)"},
    {"tensord::attention_key_gradients(Tensor masked, Tensor unmasked, Tensor masked_weights, "
     "Tensor unmasked_weights, Tensor query, Tensor grad, Tensor like_key, Tensor like_value, "
     "Tensor[] blocks, int[] sizes, int[] orders)"},
};

}  // namespace

OperatorTable AttentionTable() { return {OperatorKind::kAttention, kAttentionRows}; }

}  // namespace tensord::compiler
