// SPDX-License-Identifier: Apache-2.0
// The gradients of attention (attention_forward.cuh), of scores that are computed again tile by
// tile.
#ifndef TENSORD_CUDA_ATTENTION_BACKWARD_CUH_
#define TENSORD_CUDA_ATTENTION_BACKWARD_CUH_

#include "tensord/cuda/attention_tiles.cuh"

namespace tk {

// exp, for a result that is rounded to 16 bits: its relative error is at most 2^-22 + 1.25 |x|
// 2^-24, and below 2^-126 it is 0.
template <int W>
TK_FN Vec<float, W> exp_approx(Vec<float, W> x) {
  TK_EACH(i) x.at[i] = ptx::exp2_approx(x.at[i] * impl::log2_of_e());
  return x;
}

// The gradient of the block's tile of queries. masked(product of a query and a key, of the result's
// gradient and a value, the query's values, batch, head, query, key) gives the gradient of the
// first product; unmasked the same of tiles that are seen whole and complete. Template arguments
// and `bytes` as of attention_forward.
template <class S, int D, int V, int Q, class OfQuery, class Masked, class Unmasked>
TK_FN void attention_query_gradient(int number, char* bytes, const Rows<const S>& q,
                                    const Rows<const S>& k, const Rows<const S>& v,
                                    const Rows<const S>& grad, const Rows<S>& out,
                                    const AttentionSizes& n, const Blocks& partial,
                                    const Blocks& whole, const OfQuery& of_query,
                                    const Masked& masked, const Unmasked& unmasked) {
  enum : int {
    kThreads = 2 * Q,
    kKeys = 64,
    kKeyBytes = impl::tile_bytes<D>(kKeys),
    kStageBytes = kKeyBytes + impl::tile_bytes<V>(kKeys),
  };
  const int tiles = (n.queries + Q - 1) / Q;
  const int tile = tiles - 1 - number % tiles, bh = number / tiles;
  const int b = bh / n.heads, h = bh % n.heads, g = h / (n.heads / n.groups);
  const int first = tile * Q, row = first + impl::row_of_thread();
  const uint32_t queries = impl::aligned(bytes), grads = queries + impl::tile_bytes<D>(Q),
                 stages = grads + impl::tile_bytes<V>(Q);

  impl::TileCopy<S, Q, D, kThreads>(q.of(b, h), q.row, n.queries, n.width).start(queries, first);
  impl::TileCopy<S, Q, V, kThreads>(grad.of(b, h), grad.row, n.queries, n.value_width)
      .start(grads, first);
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
  float sums[D / 2], products[kKeys / 2], of_weights[kKeys / 2];
  _Pragma("unroll") for (int i = 0; i < D / 2; ++i) sums[i] = 0;
  uint32_t rounded[kKeys / 16][4];
  const auto multiply = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    impl::multiply_rows<S, kKeys, D, Q>(products, impl::rows_of_group(queries), at);
    impl::multiply_rows<S, kKeys, V, Q>(of_weights, impl::rows_of_group(grads), at + kKeyBytes);
    ptx::commit_products();
  };
  const auto add = [&](int stage) {
    impl::add_weighed<S, kKeys, D>(sums, rounded, stages + stage * kStageBytes);
    ptx::commit_products();
  };
  const auto differentiate = [&](int t, bool is_whole) {
    const auto by = [&](const auto& function, bool all) {
      impl::each_product<kKeys>(
          row, n.queries, t * kKeys, n.keys, all, [&](int i, int query, int key, bool exists) {
            const auto& of = values_of.of[impl::row_of_product(i)];
            const float x = function(products[i], of_weights[i], of, b, h, query, key);
            products[i] = exists ? x : 0.0f;
          });
    };
    if (is_whole && first + Q <= n.queries && (t + 1) * kKeys <= n.keys)
      by(unmasked, true);
    else
      by(masked, false);
  };

  const auto settle = [&] { impl::round_weights<S, kKeys>(rounded, products); };
  impl::go_over_tiles(list, load, multiply, add, differentiate, settle);
  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    const int query = row + 8 * r;
    if (query >= n.queries) continue;
    impl::store_row<S, D>(out.of(b, h) + query * out.row, sums, r, 1.0f, n.width);
  }
}

// The gradients of the block's tile of K keys and of their values, of all heads of the group.
// gradient and weight: of the same arguments as above, the gradient of the first product and the
// softmax's weight. The lists are of blocks of queries, by blocks of keys. `bytes` has besides, for
// two tiles, the values of 64 queries each.
template <class S, int D, int V, int K, class OfQuery, class Gradient, class Weight,
          class UnmaskedGradient, class UnmaskedWeight>
TK_FN void attention_key_gradients(int number, char* bytes, const Rows<const S>& q,
                                   const Rows<const S>& k, const Rows<const S>& v,
                                   const Rows<const S>& grad, const Rows<S>& out_k,
                                   const Rows<S>& out_v, const AttentionSizes& n,
                                   const Blocks& partial, const Blocks& whole,
                                   const OfQuery& of_query, const Gradient& gradient,
                                   const Weight& weight, const UnmaskedGradient& unmasked_gradient,
                                   const UnmaskedWeight& unmasked_weight) {
  enum : int {
    kThreads = 2 * K,
    kQueries = 64,
    kQueryBytes = impl::tile_bytes<D>(kQueries),
    kStageBytes = kQueryBytes + impl::tile_bytes<V>(kQueries),
  };
  const int tiles = (n.keys + K - 1) / K, bg = number / tiles;
  const int b = bg / n.groups, g = bg % n.groups, heads = n.heads / n.groups;
  const int first = number % tiles * K, row = first + impl::row_of_thread();
  typedef decltype(of_query(0, 0, 0)) Values;
  Values* const values_of = reinterpret_cast<Values*>(bytes);
  const uint32_t keys = impl::aligned(bytes + 2 * kQueries * sizeof(Values)),
                 values = keys + impl::tile_bytes<D>(K), stages = values + impl::tile_bytes<V>(K);

  impl::TileCopy<S, K, D, kThreads>(k.of(b, g), k.row, n.keys, n.width).start(keys, first);
  impl::TileCopy<S, K, V, kThreads>(v.of(b, g), v.row, n.keys, n.value_width).start(values, first);
  const impl::TileCopy<S, kQueries, D, kThreads> queries(q.of(b, g * heads), q.row, n.queries,
                                                         n.width);
  const impl::TileCopy<S, kQueries, V, kThreads> grads(grad.of(b, g * heads), grad.row, n.queries,
                                                       n.value_width);
  const auto list_of = [&](int head) {
    return impl::tiles_of(partial, whole, b, g * heads + head, first / n.block_keys,
                          n.block_queries / kQueries, (n.queries + kQueries - 1) / kQueries);
  };
  // A tile of queries, of a head of the group; -1 behind the last one.
  struct Tile {
    int t, head;
    bool is_whole;
  };
  int head = 0;
  impl::TileList list = list_of(0);
  const auto next_tile = [&] {
    Tile next{-1, 0, false};
    while (head < heads) {
      next.t = list.next(&next.is_whole);
      next.head = head;
      if (next.t >= 0) break;
      if (++head < heads) list = list_of(head);
    }
    return next;
  };
  // What the thread's query of the tile that is on its way has.
  Values coming;
  const auto load = [&](int stage, const Tile& tile) {
    if (tile.t >= 0) {
      const uint32_t at = stages + stage * kStageBytes;
      queries.start(at, tile.t * kQueries, tile.head * q.head);
      grads.start(at + kQueryBytes, tile.t * kQueries, tile.head * grad.head);
      if (threadIdx.x < kQueries) {
        const int query = tile.t * kQueries + int(threadIdx.x);
        coming = of_query(b, g * heads + tile.head, query < n.queries ? query : n.queries - 1);
      }
    }
    ptx::commit_copies();
  };
  const auto put_values = [&](int stage) {
    if (threadIdx.x < kQueries) values_of[stage * kQueries + threadIdx.x] = coming;
  };

  float of_keys[D / 2], of_values[V / 2], products[kQueries / 2], of_weights[kQueries / 2];
  _Pragma("unroll") for (int i = 0; i < D / 2; ++i) of_keys[i] = 0;
  _Pragma("unroll") for (int i = 0; i < V / 2; ++i) of_values[i] = 0;
  uint32_t gradients[kQueries / 16][4], weights[kQueries / 16][4];
  const auto differentiate = [&](int stage, const Tile& tile) {
    const int h = g * heads + tile.head;
    const auto by = [&](const auto& differentiated, const auto& weighed, bool all) {
      impl::each_product<kQueries>(
          row, n.keys, tile.t * kQueries, n.queries, all,
          [&](int i, int key, int query, bool exists) {
            const Values of = values_of[stage * kQueries + query - tile.t * kQueries];
            const float d = differentiated(products[i], of_weights[i], of, b, h, query, key);
            const float w = weighed(products[i], of_weights[i], of, b, h, query, key);
            of_weights[i] = exists ? d : 0.0f;
            products[i] = exists ? w : 0.0f;
          });
    };
    if (tile.is_whole && first + K <= n.keys && (tile.t + 1) * kQueries <= n.queries)
      by(unmasked_gradient, unmasked_weight, true);
    else
      by(gradient, weight, false);
  };

  Tile tile = next_tile();
  if (tile.t >= 0) {
    load(0, tile);
    put_values(0);
    for (int stage = 0; tile.t >= 0; stage ^= 1) {
      const Tile next = next_tile();
      const uint32_t at = stages + stage * kStageBytes;
      ptx::wait_for_copies<0>();
      impl::meet_copies();
      load(stage ^ 1, next);
      ptx::begin_products();
      impl::multiply_rows<S, kQueries, D, K>(products, impl::rows_of_group(keys), at);
      impl::multiply_rows<S, kQueries, V, K>(of_weights, impl::rows_of_group(values),
                                             at + kQueryBytes);
      ptx::commit_products();
      ptx::wait_for_products<0>();
      differentiate(stage, tile);
      impl::round_weights<S, kQueries>(weights, products);
      impl::round_weights<S, kQueries>(gradients, of_weights);
      ptx::begin_products();
      impl::add_weighed<S, kQueries, V>(of_values, weights, at + kQueryBytes);
      impl::add_weighed<S, kQueries, D>(of_keys, gradients, at);
      ptx::commit_products();
      put_values(stage ^ 1);
      ptx::wait_for_products<0>();
      tile = next;
    }
  }
  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    const int key = row + 8 * r;
    if (key >= n.keys) continue;
    impl::store_row<S, D>(out_k.of(b, g) + key * out_k.row, of_keys, r, 1.0f, n.width);
    impl::store_row<S, V>(out_v.of(b, g) + key * out_v.row, of_values, r, 1.0f, n.value_width);
  }
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATTENTION_BACKWARD_CUH_
