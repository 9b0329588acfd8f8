// SPDX-License-Identifier: Apache-2.0
// Attention whose scores are never in memory: each warpgroup has 64 queries, and goes over tiles of
// keys with the largest score and the sum of exponentials that each query has seen so far
// (FlashAttention: Dao et al., 2022; the products in the background as in FlashAttention-3).
#ifndef TENSORD_CUDA_ATTENTION_FORWARD_CUH_
#define TENSORD_CUDA_ATTENTION_FORWARD_CUH_

#include "tensord/cuda/attention_tiles.cuh"

namespace tk {

// The block's tile of queries. masked(product of a query and a key, the query's values, batch,
// head, query, key) gives a score, -inf where the query does not see the key; unmasked the same of
// tiles that are seen whole and complete. Scores are these times `factor`, which is positive.
// sums: of each query the logarithm of its sum of exponentials; largest: its largest score; both
// [batch, heads, queries].
//
// D, V: columns of keys and of values, multiples of 64, of which `width` and `value_width` are
// there, multiples of 8. Q: queries of a block, of 2 * Q threads.
template <class S, int D, int V, int Q, class OfQuery, class Masked, class Unmasked>
TK_FN void attention_forward(int number, char* bytes, const Rows<const S>& q,
                             const Rows<const S>& k, const Rows<const S>& v, const Rows<S>& out,
                             float* sums, float* largest, const AttentionSizes& n,
                             const Blocks& partial, const Blocks& whole, float factor,
                             const OfQuery& of_query, const Masked& masked,
                             const Unmasked& unmasked) {
  enum : int {
    kThreads = 2 * Q,
    kKeys = 64,
    kKeyBytes = impl::tile_bytes<D>(kKeys),
    kStageBytes = kKeyBytes + impl::tile_bytes<V>(kKeys),
  };
  const int tiles = (n.queries + Q - 1) / Q;
  // Of a causal mask the last queries see most: they begin first.
  const int tile = tiles - 1 - number % tiles, bh = number / tiles;
  const int b = bh / n.heads, h = bh % n.heads, g = h / (n.heads / n.groups);
  const int first = tile * Q, row = first + impl::row_of_thread();
  const uint32_t queries = impl::aligned(bytes), stages = queries + impl::tile_bytes<D>(Q);

  impl::TileCopy<S, Q, D, kThreads>(q.of(b, h), q.row, n.queries, n.width).start(queries, first);
  const impl::TileCopy<S, kKeys, D, kThreads> keys(k.of(b, g), k.row, n.keys, n.width);
  const impl::TileCopy<S, kKeys, V, kThreads> values(v.of(b, g), v.row, n.keys, n.value_width);
  const impl::TileList list = impl::tiles_of(partial, whole, b, h, first / n.block_queries,
                                             n.block_keys / kKeys, (n.keys + kKeys - 1) / kKeys);
  const auto load = [&](int stage, int t) {
    if (t >= 0) {
      keys.start(stages + stage * kStageBytes, t * kKeys);
      values.start(stages + stage * kStageBytes + kKeyBytes, t * kKeys);
    }
    ptx::commit_copies();
  };

  const impl::ValuesOfRows<OfQuery> values_of(of_query, b, h, row, n.queries);
  float result[V / 2], scores[kKeys / 2];
  _Pragma("unroll") for (int i = 0; i < V / 2; ++i) result[i] = 0;
  uint32_t weights[kKeys / 16][4];
  float most[2] = {-infinity<float>(), -infinity<float>()}, total[2] = {0, 0}, kept[2];

  const auto multiply_keys = [&](int stage) {
    impl::multiply_rows<S, kKeys, D, Q>(scores, impl::rows_of_group(queries),
                                        stages + stage * kStageBytes);
    ptx::commit_products();
  };
  const auto multiply_values = [&](int stage) {
    impl::add_weighed<S, kKeys, V>(result, weights, stages + stage * kStageBytes + kKeyBytes);
    ptx::commit_products();
  };
  const float exponent = factor * impl::log2_of_e();
  // Of products with the keys of tile t: exponentials, and what is kept of the results so far.
  const auto exponentials = [&](int t, bool is_whole) {
    const auto score = [&](const auto& function, bool all) {
      impl::each_product<kKeys>(row, n.queries, t * kKeys, n.keys, all,
                                [&](int i, int query, int key, bool exists) {
                                  const auto& of = values_of.of[impl::row_of_product(i)];
                                  const float x = function(scores[i], of, b, h, query, key);
                                  scores[i] = exists ? x : -infinity<float>();
                                });
    };
    if (is_whole && first + Q <= n.queries && (t + 1) * kKeys <= n.keys)
      score(unmasked, true);
    else
      score(masked, false);
    _Pragma("unroll") for (int r = 0; r < 2; ++r) {
      float m = most[r];
      _Pragma("unroll") for (int i = 0; i < kKeys / 8; ++i) {
        m = max(m, max(scores[4 * i + 2 * r], scores[4 * i + 2 * r + 1]));
      }
      m = max(m, __shfl_xor_sync(~0u, m, 1));
      m = max(m, __shfl_xor_sync(~0u, m, 2));
      const float zero = m == -infinity<float>() ? 0.0f : m * exponent;
      kept[r] = ptx::exp2_approx(most[r] * exponent - zero);
      most[r] = m;
      float sum = 0;
      _Pragma("unroll") for (int i = 0; i < kKeys / 8; ++i) {
        _Pragma("unroll") for (int c = 0; c < 2; ++c) {
          float& x = scores[4 * i + 2 * r + c];
          x = ptx::exp2_approx(x * exponent - zero);
          sum += x;
        }
      }
      total[r] = total[r] * kept[r] + sum;
    }
  };

  const auto settle = [&] {
    if (__any_sync(~0u, kept[0] != 1 || kept[1] != 1)) {
      _Pragma("unroll") for (int i = 0; i < V / 2; ++i) result[i] *= kept[impl::row_of_product(i)];
    }
    impl::round_weights<S, kKeys>(weights, scores);
  };
  impl::go_over_tiles(list, load, multiply_keys, multiply_values, exponentials, settle);

  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    const int query = row + 8 * r;
    if (query >= n.queries) continue;
    // NaN of a row that has one, or an infinite score, stays NaN.
    const bool sees_nothing = total[r] == 0;
    impl::store_row<S, V>(out.of(b, h) + query * out.row, result, r,
                          sees_nothing ? 0.0f : 1.0f / total[r], n.value_width);
    if (impl::lane_of_warp() % 4 == 0) {
      const int64_t place = int64_t(bh) * n.queries + query;
      const float score = most[r] * factor;
      const bool is_infinite = score == infinity<float>();
      const bool is_nan = total[r] != total[r] && !is_infinite;
      sums[place] = is_infinite || sees_nothing ? score : score + logf(total[r]);
      largest[place] = is_nan ? total[r] : score;
    }
  }
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATTENTION_FORWARD_CUH_
