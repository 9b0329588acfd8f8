// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). Words and uniform numbers are bit-equal to the CPU
// prelude's; normal ones differ by the errors of log, sqrt and cos.
#ifndef TENSORD_CUDA_RANDOM_CUH_
#define TENSORD_CUDA_RANDOM_CUH_

#include "tensord/cuda/math.cuh"

namespace tk {

template <int W>
struct Philox {
  Vec<uint32_t, W> word[4];
};

// Ten rounds on a 128-bit counter with a 64-bit key.
template <int W>
TK_FN Philox<W> philox(Philox<W> counter, uint32_t key0, uint32_t key1) {
  Vec<uint32_t, W>(&c)[4] = counter.word;
  // Several lanes hide each other's latency; unrolled they would be a thousand instructions.
  [[maybe_unused]] constexpr int kUnroll = W <= 2 ? 10 : 1;
#pragma unroll kUnroll
  for (int round = 0; round < 10; ++round) {
    TK_EACH(i) {
      const uint32_t a = c[0].at[i], b = c[2].at[i];
      c[0].at[i] = __umulhi(b, 0xCD9E8D57u) ^ c[1].at[i] ^ key0;
      c[2].at[i] = __umulhi(a, 0xD2511F53u) ^ c[3].at[i] ^ key1;
      c[1].at[i] = b * 0xCD9E8D57u;
      c[3].at[i] = a * 0xD2511F53u;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

namespace impl {
// The words of each element: counter (offset, third, 0), key seed.
template <int W>
TK_FN Philox<W> philox_words(uint64_t seed, Vec<int64_t, W> offset, Vec<uint32_t, W> third) {
  Philox<W> c;
  TK_EACH(i) {
    c.word[0].at[i] = uint32_t(offset.at[i]);
    c.word[1].at[i] = uint32_t(uint64_t(offset.at[i]) >> 32);
    c.word[2].at[i] = third.at[i];
    c.word[3].at[i] = 0;
  }
  return philox(c, uint32_t(seed), uint32_t(seed >> 32));
}
// The top 24 bits as a float in [0, 1): every value is exact.
template <int W>
TK_FN Vec<float, W> unit_float(Vec<uint32_t, W> bits) {
  Vec<float, W> r;
  TK_EACH(i) r.at[i] = float(int32_t(bits.at[i] >> 8)) * 0x1p-24f;
  return r;
}
// Box and Muller 1958, of the first two words.
template <int W>
TK_FN Vec<float, W> normal(const Philox<W>& words) {
  const Vec<float, W> first = unit_float(words.word[0]), second = unit_float(words.word[1]);
  Vec<float, W> r;
  TK_EACH(i) {
    const float u = 1.0f - first.at[i];  // in (0, 1], for the logarithm
    r.at[i] = ::sqrtf(::logf(u) * -2.0f) * scalar::sin_core(second.at[i] * 6.28318531f, 1);
  }
  return r;
}
// The words of one element of one random operator (`stream`) of the graph.
template <int W>
TK_FN Philox<W> graph_words(Vec<int64_t, W> seed, Vec<int64_t, W> stream, Vec<int64_t, W> element) {
  // The seed is the same in every lane.
  return philox_words(uint64_t(seed.at[0]), element, convert_lanes<uint32_t>(stream));
}
}  // namespace impl

// The four words of each element: counter (offset, 0), key seed.
template <int W>
TK_FN Philox<W> random_words(uint64_t seed, Vec<int64_t, W> offset) {
  return impl::philox_words(seed, offset, broadcast<W>(0u));
}
// Uniform in [0, 1).
template <int W>
TK_FN Vec<float, W> rand_uniform(uint64_t seed, Vec<int64_t, W> offset) {
  return impl::unit_float(random_words(seed, offset).word[0]);
}
// Standard normal.
template <int W>
TK_FN Vec<float, W> rand_normal(uint64_t seed, Vec<int64_t, W> offset) {
  return impl::normal(random_words(seed, offset));
}
// Uniform in [low, high), low < high, by remainder of 64 bits: the bias is below (high-low) / 2^64.
template <int W>
TK_FN Vec<int64_t, W> rand_int64(uint64_t seed, Vec<int64_t, W> offset, int64_t low, int64_t high) {
  const Philox<W> r = random_words(seed, offset);
  const uint64_t span = uint64_t(high) - uint64_t(low);
  Vec<int64_t, W> result;
  TK_EACH(i) {
    const uint64_t x = uint64_t(r.word[1].at[i]) << 32 | r.word[0].at[i];
    result.at[i] = int64_t(uint64_t(low) + (span ? x % span : x));
  }
  return result;
}

// --- the graph's random operators

// Uniform in [0, 1).
template <int W>
TK_FN Vec<float, W> philox_uniform(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                   Vec<int64_t, W> element) {
  return impl::unit_float(impl::graph_words(seed, stream, element).word[0]);
}
// Standard normal.
template <int W>
TK_FN Vec<float, W> philox_normal(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                  Vec<int64_t, W> element) {
  return impl::normal(impl::graph_words(seed, stream, element));
}

}  // namespace tk

#endif  // TENSORD_CUDA_RANDOM_CUH_
