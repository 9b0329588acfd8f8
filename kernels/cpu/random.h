// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The key is the seed, the counter the element's offset, so
// a number depends on those two only, never on W, threads or the order of evaluation.
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

// The four words of each element: counter (offset, 0), key seed.
template <int W>
TK_FN Philox<W> random_words(uint64_t seed, Vec<int64_t, W> offset) {
  const Vec<uint32_t, W> low = convert_lanes<uint32_t>(offset);
  const Vec<uint32_t, W> high = convert_lanes<uint32_t>(bitcast<uint64_t>(offset) >> 32);
  const Vec<uint32_t, W> zero = like(low, 0u);
  return philox(Philox<W>{{low, high, zero, zero}}, uint32_t(seed), uint32_t(seed >> 32));
}

namespace impl {
// The top 24 bits as a float in [0, 1): every value is exact.
template <int W>
TK_FN Vec<float, W> unit_float(Vec<uint32_t, W> bits) {
  return convert_lanes<float>(bitcast<int32_t>(bits >> 8)) * broadcast<W>(0x1p-24f);
}
}  // namespace impl

// Uniform in [0, 1).
template <int W>
TK_FN Vec<float, W> rand_uniform(uint64_t seed, Vec<int64_t, W> offset) {
  return impl::unit_float(random_words(seed, offset).word[0]);
}
// Standard normal (Box and Muller 1958).
template <int W>
TK_FN Vec<float, W> rand_normal(uint64_t seed, Vec<int64_t, W> offset) {
  const Philox<W> r = random_words(seed, offset);
  // In (0, 1], for the logarithm.
  const Vec<float, W> u = like(Vec<float, W>{}, 1.0f) - impl::unit_float(r.word[0]);
  const Vec<float, W> angle = impl::unit_float(r.word[1]) * like(u, 6.28318531f);
  return sqrt(log(u) * like(u, -2.0f)) * cos(angle);
}
// Uniform in [low, high), low < high, by remainder of 64 bits: the bias is below (high-low) / 2^64.
template <int W>
TK_FN Vec<int64_t, W> rand_int64(uint64_t seed, Vec<int64_t, W> offset, int64_t low, int64_t high) {
  const Philox<W> r = random_words(seed, offset);
  const uint64_t span = uint64_t(high) - uint64_t(low);
  return map_lanes<int64_t>(
      [=](uint32_t a, uint32_t b) {
        const uint64_t x = uint64_t(b) << 32 | a;
        return int64_t(uint64_t(low) + (span ? x % span : x));
      },
      r.word[0], r.word[1]);
}

}  // namespace tk

#endif  // TENSORD_CPU_RANDOM_H_
