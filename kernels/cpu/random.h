// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The key is the seed, the counter the element's block of
// words, so a number depends on those two only, never on W, threads or the order of evaluation.
#ifndef TENSORD_CPU_RANDOM_H_
#define TENSORD_CPU_RANDOM_H_

#include "math.h"

namespace tk {

template <int W>
struct Philox {
  Vec<uint32_t, W> word[4];
};

namespace impl {
template <int W>
struct Product {
  Vec<uint32_t, W> high, low;
};
template <int W>
TK_FN Product<W> multiply_wide(Vec<uint32_t, W> a, uint32_t m) {
#if TK_AVX512
  if constexpr (W == 16) {
    using namespace avx512;
    const I32 x = __builtin_bit_cast(I32, a.part[0]), k = I32{} + int(m);
    const I64 even_lanes = __builtin_ia32_pmuludq512_mask(x, k, I64{}, -1);
    const I32 even = (I32)even_lanes;
    const I32 odd = (I32)__builtin_ia32_pmuludq512_mask((I32)((I64)x >> 32), k, I64{}, -1);
    using P = typename Vec<uint32_t, W>::Part;
    const I32 high = __builtin_shufflevector(even, odd, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27,
                                             13, 29, 15, 31);
    const I32 low = __builtin_shufflevector(even, odd, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26,
                                            12, 28, 14, 30);
    return {{(P)high}, {(P)low}};
  }
#endif
#if TK_AVX2
  if constexpr (W == 8) {
    typedef int I __attribute__((vector_size(32)));
    typedef unsigned long long L __attribute__((vector_size(32)));
    const I x = (I)a.part[0], k = I{} + int(m);
    const I even = (I)__builtin_ia32_pmuludq256(x, k);
    const I odd = (I)__builtin_ia32_pmuludq256((I)((L)x >> 32), k);
    using P = typename Vec<uint32_t, W>::Part;
    return {{(P)__builtin_shufflevector(even, odd, 1, 9, 3, 11, 5, 13, 7, 15)},
            {(P)__builtin_shufflevector(even, odd, 0, 8, 2, 10, 4, 12, 6, 14)}};
  }
#endif
  return {map_lanes<uint32_t>([m](uint32_t x) { return uint32_t(uint64_t(x) * m >> 32); }, a),
          a * like(a, m)};
}
}  // namespace impl

// Ten rounds on a 128-bit counter with a 64-bit key.
template <int W>
TK_FN Philox<W> philox(Philox<W> counter, uint32_t key0, uint32_t key1) {
  Vec<uint32_t, W>(&c)[4] = counter.word;
#pragma GCC unroll 10
  for (int i = 0; i < 10; ++i) {
    const impl::Product<W> p = impl::multiply_wide(c[0], 0xD2511F53u);
    const impl::Product<W> q = impl::multiply_wide(c[2], 0xCD9E8D57u);
    c[0] = q.high ^ c[1] ^ like(c[1], key0);
    c[2] = p.high ^ c[3] ^ like(c[3], key1);
    c[1] = q.low;
    c[3] = p.low;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

namespace impl {
// The top 24 bits as a float in [0, 1): every value is exact.
template <int W>
TK_FN Vec<float, W> unit_float(Vec<uint32_t, W> bits) {
  return convert_lanes<float>(bitcast<int32_t>(bits >> 8)) * broadcast<W>(0x1p-24f);
}
// Block `number` of one random operator (`stream`) of the graph: counter {number, stream, 0}.
template <int W>
TK_FN Philox<W> graph_block(Vec<int64_t, W> seed, Vec<int64_t, W> stream, Vec<uint64_t, W> number) {
  const Vec<uint32_t, W> low = convert_lanes<uint32_t>(number);
  const Vec<uint32_t, W> high = convert_lanes<uint32_t>(number >> 32);
  const Vec<uint32_t, W> which = convert_lanes<uint32_t>(stream), zero = like(low, 0u);
  const uint64_t key = uint64_t(get(seed, 0));  // the same in every lane
  return philox(Philox<W>{{low, high, which, zero}}, uint32_t(key), uint32_t(key >> 32));
}
}  // namespace impl

// --- the graph's random operators: of the seed, the operator's number and the element's

// Uniform in [0, 1): of word e % 4 of block e / 4.
template <int W>
TK_FN Vec<float, W> philox_uniform(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                   Vec<int64_t, W> element) {
  const Vec<uint64_t, W> e = bitcast<uint64_t>(element);
  const Philox<W> block = impl::graph_block(seed, stream, e >> 2);
  const Vec<uint32_t, W> at = convert_lanes<uint32_t>(e), zero = like(at, 0u);
  const Mask<W> even = eq(at & like(at, 1u), zero), low = eq(at & like(at, 2u), zero);
  return impl::unit_float(where(low, where(even, block.word[0], block.word[1]),
                                where(even, block.word[2], block.word[3])));
}
// Standard normal (Box and Muller 1958): of words 2 (e % 2) and the next of block e / 2.
template <int W>
TK_FN Vec<float, W> philox_normal(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                  Vec<int64_t, W> element) {
  const Vec<uint64_t, W> e = bitcast<uint64_t>(element);
  const Philox<W> block = impl::graph_block(seed, stream, e >> 1);
  const Vec<uint32_t, W> at = convert_lanes<uint32_t>(e);
  const Mask<W> even = eq(at & like(at, 1u), like(at, 0u));
  const Vec<float, W> first = impl::unit_float(where(even, block.word[0], block.word[2]));
  const Vec<float, W> second = impl::unit_float(where(even, block.word[1], block.word[3]));
  const Vec<float, W> u = like(first, 1.0f) - first;  // in (0, 1], for the logarithm
  return sqrt(log(u) * like(u, -2.0f)) * cos(second * like(u, 6.28318531f));
}

}  // namespace tk

#endif  // TENSORD_CPU_RANDOM_H_
