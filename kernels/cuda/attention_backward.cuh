// SPDX-License-Identifier: Apache-2.0
// The gradients of attention (attention.cuh), of weights that are computed again tile by tile.
#ifndef TENSORD_CUDA_ATTENTION_BACKWARD_CUH_
#define TENSORD_CUDA_ATTENTION_BACKWARD_CUH_

#include "tensord/cuda/attention.cuh"

namespace tk {

// The gradient of the block's tile of queries. masked(product of a query and a key, of the result's
// gradient and a value, batch, head, query, key) gives the gradient of the first product.
template <class S, int D, int V, int Q, class Masked, class Unmasked>
TK_FN void attention_query_gradient(int number, char* bytes, const Rows<const S>& q,
                                      const Rows<const S>& k, const Rows<const S>& v,
                                      const Rows<const S>& grad, const Rows<S>& out,
                                      const AttentionSizes& n, const Blocks& partial,
                                      const Blocks& whole, const Masked& masked,
                                      const Unmasked& unmasked) {
  enum : int {
    kThreads = 2 * Q,
    kKeys = 64,
    kQueryBytes = impl::tile_bytes<D>(Q),
    kGradBytes = impl::tile_bytes<V>(Q),
    kKeyBytes = impl::tile_bytes<D>(kKeys),
    kStageBytes = kKeyBytes + impl::tile_bytes<V>(kKeys),
    kWide = D % 128 == 0 ? 128 : 64,
  };
  const int tiles = (n.queries + Q - 1) / Q;
  const int tile = tiles - 1 - number % tiles, bh = number / tiles;
  const int b = bh / n.heads, h = bh % n.heads, g = h / (n.heads / n.groups);
  const int first = tile * Q;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const uint32_t shared = impl::aligned(bytes), stages = shared + kQueryBytes + kGradBytes;
  impl::TileCopy<S, Q, D, kThreads>(q.of(b, h), q.row, n.queries, n.width).start(shared, first);
  impl::TileCopy<S, Q, V, kThreads>(grad.of(b, h), grad.row, n.queries, n.value_width)
      .start(shared + kQueryBytes, first);
  const impl::TileCopy<S, kKeys, D, kThreads> keys(k.of(b, g), k.row, n.keys, n.width);
  const impl::TileCopy<S, kKeys, V, kThreads> values(v.of(b, g), v.row, n.keys, n.value_width);
  impl::TileList list = impl::tiles_of(partial, whole, b, h, first / n.block_queries,
                                       n.block_keys / kKeys, (n.keys + kKeys - 1) / kKeys);
  const auto load = [&](int stage, int t) {
    if (t >= 0) {
      keys.start(stages + stage * kStageBytes, t * kKeys);
      values.start(stages + stage * kStageBytes + kKeyBytes, t * kKeys);
    }
    ptx::commit_copies();
  };
  float sums[D / 2], s[kKeys / 2], w[kKeys / 2];
  _Pragma("unroll") for (int i = 0; i < D / 2; ++i) sums[i] = 0;
  uint32_t rounded[kKeys / 16][4];
  const int row = first + warp * 16 + lane / 4;
  const uint32_t mine = shared + uint32_t(warp / 4 * 64 * 128);
  const auto multiply = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    _Pragma("unroll") for (int c = 0; c < D / 16; ++c) {
      ptx::Products<S, kKeys>::shared(
          s, ptx::matrix_at(mine + c / 4 * (Q * 128) + c % 4 * 32),
          ptx::matrix_at(at + c / 4 * (kKeys * 128) + c % 4 * 32), c > 0);
    }
    _Pragma("unroll") for (int c = 0; c < V / 16; ++c) {
      ptx::Products<S, kKeys>::shared(
          w, ptx::matrix_at(mine + kQueryBytes + c / 4 * (Q * 128) + c % 4 * 32),
          ptx::matrix_at(at + kKeyBytes + c / 4 * (kKeys * 128) + c % 4 * 32), c > 0);
    }
    ptx::commit_products();
  };
  const auto add = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    _Pragma("unroll") for (int c = 0; c < kKeys / 16; ++c) {
      _Pragma("unroll") for (int p = 0; p < D / kWide; ++p) {
        ptx::Products<S, kWide>::registers(
            sums + p * (kWide / 2), rounded[c],
            ptx::matrix_at(at + p * (kWide / 64) * (kKeys * 128) + c * 2048, kKeys * 128));
      }
    }
    ptx::commit_products();
  };
  const auto apply = [&](const auto& function, int t, bool all) {
    _Pragma("unroll") for (int i = 0; i < kKeys / 2; ++i) {
      const int query = row + i % 4 / 2 * 8, key = t * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (all) {
        s[i] = function(s[i], w[i], b, h, query, key);
      } else {
        const bool exists = query < n.queries && key < n.keys;
        const float x = function(s[i], w[i], b, h, query < n.queries ? query : n.queries - 1,
                                 key < n.keys ? key : n.keys - 1);
        s[i] = exists ? x : 0.0f;
      }
    }
  };
  const auto gradients = [&](int t, bool is_whole) {
    const bool all = first + Q <= n.queries && (t + 1) * kKeys <= n.keys;
    if (is_whole) {
      if (all)
        apply(unmasked, t, true);
      else
        apply(unmasked, t, false);
    } else {
      if (all)
        apply(masked, t, true);
      else
        apply(masked, t, false);
    }
  };
  const auto round = [&] {
    _Pragma("unroll") for (int c = 0; c < kKeys / 16; ++c) {
      _Pragma("unroll") for (int i = 0; i < 4; ++i) {
        rounded[c][i] = impl::pair_of<S>(s[8 * c + 2 * i], s[8 * c + 2 * i + 1]);
      }
    }
  };
  bool is_whole = false;
  int t = list.next(&is_whole);
  if (t >= 0) {
    bool next_is_whole = false;
    int next = list.next(&next_is_whole), stage = 0;
    load(0, t);
    load(1, next);
    ptx::wait_for_copies<1>();
    ptx::show_to_products();
    __syncthreads();
    ptx::begin_products();
    multiply(0);
    ptx::wait_for_products<0>();
    gradients(t, is_whole);
    round();
    while (next >= 0) {
      const int following = stage + 1 == impl::kStages ? 0 : stage + 1;
      ptx::wait_for_copies<0>();
      ptx::show_to_products();
      __syncthreads();
      t = next;
      is_whole = next_is_whole;
      next = list.next(&next_is_whole);
      load(following + 1 == impl::kStages ? 0 : following + 1, next);
      ptx::begin_products();
      multiply(following);
      add(stage);
      ptx::wait_for_products<1>();
      gradients(t, is_whole);
      ptx::wait_for_products<0>();
      round();
      stage = following;
    }
    ptx::begin_products();
    add(stage);
    ptx::wait_for_products<0>();
  }
  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    const int query = row + 8 * r;
    if (query >= n.queries) continue;
    S* const to = out.of(b, h) + query * out.row + lane % 4 * 2;
    _Pragma("unroll") for (int i = 0; i < D / 8; ++i) {
      if (i * 8 >= n.width) break;
      *reinterpret_cast<uint32_t*>(to + i * 8) =
          impl::pair_of<S>(sums[4 * i + 2 * r], sums[4 * i + 2 * r + 1]);
    }
  }
}

// The gradients of the block's tile of keys and of their values. gradient and weight: of the same
// arguments as above, the gradient of the first product and the softmax's weight. The lists are of tiles of queries, by blocks of
// keys; n.block_keys are those of a list, n.block_queries of a block that it names.
template <class S, int D, int V, int K, class Gradient, class Weight, class UnmaskedGradient,
          class UnmaskedWeight>
TK_FN void attention_key_gradients(int number, char* bytes, const Rows<const S>& q,
                                   const Rows<const S>& k, const Rows<const S>& v,
                                   const Rows<const S>& grad, const Rows<S>& out_k,
                                   const Rows<S>& out_v, const AttentionSizes& n,
                                   const Blocks& partial, const Blocks& whole,
                                   const Gradient& gradient, const Weight& weight,
                                   const UnmaskedGradient& unmasked_gradient,
                                   const UnmaskedWeight& unmasked_weight) {
  enum : int {
    kThreads = 2 * K,
    kQueries = 64,
    kKeyBytes = impl::tile_bytes<D>(K),
    kValueBytes = impl::tile_bytes<V>(K),
    kQueryBytes = impl::tile_bytes<D>(kQueries),
    kStageBytes = kQueryBytes + impl::tile_bytes<V>(kQueries),
    kStagesHere = 2,
    kWide = D % 128 == 0 ? 128 : 64,
    kWideValues = V % 128 == 0 ? 128 : 64,
  };
  const int tiles = (n.keys + K - 1) / K;
  const int tile = number % tiles, bg = number / tiles;
  const int b = bg / n.groups, g = bg % n.groups, heads = n.heads / n.groups;
  const int first = tile * K;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const uint32_t shared = impl::aligned(bytes), stages = shared + kKeyBytes + kValueBytes;
  impl::TileCopy<S, K, D, kThreads>(k.of(b, g), k.row, n.keys, n.width).start(shared, first);
  impl::TileCopy<S, K, V, kThreads>(v.of(b, g), v.row, n.keys, n.value_width)
      .start(shared + kKeyBytes, first);
  const impl::TileCopy<S, kQueries, D, kThreads> queries(q.of(b, g * heads), q.row, n.queries,
                                                         n.width);
  const impl::TileCopy<S, kQueries, V, kThreads> grads(grad.of(b, g * heads), grad.row, n.queries,
                                                       n.value_width);
  const int query_tiles = (n.queries + kQueries - 1) / kQueries;
  const auto list_of = [&](int h) {
    return impl::tiles_of(partial, whole, b, h, first / n.block_keys, n.block_queries / kQueries,
                          query_tiles);
  };
  int head = 0;  // of the group
  impl::TileList list = list_of(g * heads);
  struct Next {
    int t, head;
    bool is_whole;
  };
  const auto advance = [&] {
    Next next{-1, 0, false};
    while (head < heads) {
      next.t = list.next(&next.is_whole);
      next.head = head;
      if (next.t >= 0) break;
      if (++head < heads) list = list_of(g * heads + head);
    }
    return next;
  };
  const auto load = [&](int stage, const Next& next) {
    if (next.t >= 0) {
      queries.start(stages + stage * kStageBytes, next.t * kQueries, next.head * q.head);
      grads.start(stages + stage * kStageBytes + kQueryBytes, next.t * kQueries,
                  next.head * grad.head);
    }
    ptx::commit_copies();
  };
  float sum_k[D / 2], sum_v[V / 2], s[kQueries / 2], w[kQueries / 2];
  _Pragma("unroll") for (int i = 0; i < D / 2; ++i) sum_k[i] = 0;
  _Pragma("unroll") for (int i = 0; i < V / 2; ++i) sum_v[i] = 0;
  uint32_t rounded_k[kQueries / 16][4], rounded_v[kQueries / 16][4];
  const int row = first + warp * 16 + lane / 4;
  const uint32_t mine = shared + uint32_t(warp / 4 * 64 * 128);
  const auto multiply = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    _Pragma("unroll") for (int c = 0; c < D / 16; ++c) {
      ptx::Products<S, kQueries>::shared(
          s, ptx::matrix_at(mine + c / 4 * (K * 128) + c % 4 * 32),
          ptx::matrix_at(at + c / 4 * (kQueries * 128) + c % 4 * 32), c > 0);
    }
    _Pragma("unroll") for (int c = 0; c < V / 16; ++c) {
      ptx::Products<S, kQueries>::shared(
          w, ptx::matrix_at(mine + kKeyBytes + c / 4 * (K * 128) + c % 4 * 32),
          ptx::matrix_at(at + kQueryBytes + c / 4 * (kQueries * 128) + c % 4 * 32), c > 0);
    }
    ptx::commit_products();
  };
  const auto add = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    _Pragma("unroll") for (int c = 0; c < kQueries / 16; ++c) {
      _Pragma("unroll") for (int p = 0; p < V / kWideValues; ++p) {
        ptx::Products<S, kWideValues>::registers(
            sum_v + p * (kWideValues / 2), rounded_v[c],
            ptx::matrix_at(
                at + kQueryBytes + p * (kWideValues / 64) * (kQueries * 128) + c * 2048,
                kQueries * 128));
      }
      _Pragma("unroll") for (int p = 0; p < D / kWide; ++p) {
        ptx::Products<S, kWide>::registers(
            sum_k + p * (kWide / 2), rounded_k[c],
            ptx::matrix_at(at + p * (kWide / 64) * (kQueries * 128) + c * 2048, kQueries * 128));
      }
    }
    ptx::commit_products();
  };
  const auto apply = [&](const auto& weigh, const auto& differentiate, const Next& at, bool all) {
    const int h = g * heads + at.head;
    _Pragma("unroll") for (int i = 0; i < kQueries / 2; ++i) {
      const int key = row + i % 4 / 2 * 8,
                query = at.t * kQueries + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (all) {
        const float d = differentiate(s[i], w[i], b, h, query, key);
        s[i] = weigh(s[i], w[i], b, h, query, key);
        w[i] = d;
      } else {
        const bool exists = query < n.queries && key < n.keys;
        const int q_in = query < n.queries ? query : n.queries - 1,
                  k_in = key < n.keys ? key : n.keys - 1;
        const float d = differentiate(s[i], w[i], b, h, q_in, k_in);
        const float x = weigh(s[i], w[i], b, h, q_in, k_in);
        w[i] = exists ? d : 0.0f;
        s[i] = exists ? x : 0.0f;
      }
    }
  };
  const auto weights = [&](const Next& at) {
    const bool all = first + K <= n.keys && (at.t + 1) * kQueries <= n.queries;
    if (at.is_whole) {
      if (all)
        apply(unmasked_weight, unmasked_gradient, at, true);
      else
        apply(unmasked_weight, unmasked_gradient, at, false);
    } else {
      if (all)
        apply(weight, gradient, at, true);
      else
        apply(weight, gradient, at, false);
    }
  };
  const auto round = [&] {
    _Pragma("unroll") for (int c = 0; c < kQueries / 16; ++c) {
      _Pragma("unroll") for (int i = 0; i < 4; ++i) {
        rounded_v[c][i] = impl::pair_of<S>(s[8 * c + 2 * i], s[8 * c + 2 * i + 1]);
        rounded_k[c][i] = impl::pair_of<S>(w[8 * c + 2 * i], w[8 * c + 2 * i + 1]);
      }
    }
  };
  Next now = advance();
  if (now.t >= 0) {
    Next next = advance();
    int stage = 0;
    load(0, now);
    while (true) {
      ptx::wait_for_copies<0>();
      ptx::show_to_products();
      __syncthreads();
      load(stage ^ 1, next);
      ptx::begin_products();
      multiply(stage);
      ptx::wait_for_products<0>();
      weights(now);
      round();
      ptx::begin_products();
      add(stage);
      ptx::wait_for_products<0>();
      if (next.t < 0) break;
      now = next;
      next = advance();
      stage ^= 1;
    }
  }
  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    const int key = row + 8 * r;
    if (key >= n.keys) continue;
    S* const to = out_k.of(b, g) + key * out_k.row + lane % 4 * 2;
    _Pragma("unroll") for (int i = 0; i < D / 8; ++i) {
      if (i * 8 >= n.width) break;
      *reinterpret_cast<uint32_t*>(to + i * 8) =
          impl::pair_of<S>(sum_k[4 * i + 2 * r], sum_k[4 * i + 2 * r + 1]);
    }
    S* const to_v = out_v.of(b, g) + key * out_v.row + lane % 4 * 2;
    _Pragma("unroll") for (int i = 0; i < V / 8; ++i) {
      if (i * 8 >= n.value_width) break;
      *reinterpret_cast<uint32_t*>(to_v + i * 8) =
          impl::pair_of<S>(sum_v[4 * i + 2 * r], sum_v[4 * i + 2 * r + 1]);
    }
  }
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATTENTION_BACKWARD_CUH_
