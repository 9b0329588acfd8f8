// SPDX-License-Identifier: Apache-2.0
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
      // Both halves of a product are one instruction.
      const uint64_t a = uint64_t(c[0].at[i]) * 0xD2511F53u;
      const uint64_t b = uint64_t(c[2].at[i]) * 0xCD9E8D57u;
      c[0].at[i] = uint32_t(b >> 32) ^ c[1].at[i] ^ key0;
      c[2].at[i] = uint32_t(a >> 32) ^ c[3].at[i] ^ key1;
      c[1].at[i] = uint32_t(b);
      c[3].at[i] = uint32_t(a);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

namespace impl {
// The top 24 bits as a float in [0, 1): every value is exact.
template <int W>
TK_FN Vec<float, W> unit_float(Vec<uint32_t, W> bits) {
  Vec<float, W> r;
  TK_EACH(i) r.at[i] = float(int32_t(bits.at[i] >> 8)) * 0x1p-24f;
  return r;
}

// A block of four words serves N elements: the words of each of them.
template <int N, int W>
struct Words {
  Vec<uint32_t, W> at[4 / N];
};
TK_FN uint32_t word_of(const Philox<1>& block, int i) {
  const uint32_t low = i & 1 ? block.word[1].at[0] : block.word[0].at[0];
  return i & 2 ? (i & 1 ? block.word[3].at[0] : block.word[2].at[0]) : low;
}
// Blocks first, first + 1, ... of one random operator (`stream`) of the graph.
template <int B>
TK_FN Philox<B> graph_blocks(int64_t seed, int64_t stream, uint64_t first) {
  Philox<B> c;
#pragma unroll
  for (int b = 0; b < B; ++b) {
    c.word[0].at[b] = uint32_t(first + b);
    c.word[1].at[b] = uint32_t((first + b) >> 32);
    c.word[2].at[b] = uint32_t(stream);
    c.word[3].at[b] = 0;
  }
  return philox(c, uint32_t(uint64_t(seed)), uint32_t(uint64_t(seed) >> 32));
}
// Of the elements first, first + 1, ...; `first` is a multiple of W.
template <int N, int W>
TK_FN Words<N, W> words_of_run(int64_t seed, int64_t stream, uint64_t first) {
  constexpr int kWords = 4 / N, kBlocks = W > N ? W / N : 1;
  const Philox<kBlocks> blocks = graph_blocks<kBlocks>(seed, stream, first / N);
  Words<N, W> words;
  TK_EACH(i) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if constexpr (W >= N)
        words.at[k].at[i] = blocks.word[i % N * kWords + k].at[i / N];
      else
        words.at[k].at[i] = word_of(blocks, int(first % N + i) * kWords + k);
    }
  }
  return words;
}
// Of any elements.
template <int N, int W>
TK_FN Words<N, W> words_of_each(int64_t seed, int64_t stream, Vec<int64_t, W> element) {
  Words<N, W> words;
  TK_EACH(i) {
    const Words<N, 1> one = words_of_run<N, 1>(seed, stream, uint64_t(element.at[i]));
#pragma unroll
    for (int k = 0; k < 4 / N; ++k) words.at[k].at[i] = one.at[k].at[0];
  }
  return words;
}

template <int W>
TK_FN Vec<float, W> uniform(const Words<4, W>& words) {
  return unit_float(words.at[0]);
}
template <int W>
TK_FN Vec<float, W> normal(const Words<2, W>& words) {
  const Vec<float, W> first = unit_float(words.at[0]), second = unit_float(words.at[1]);
  Vec<float, W> r;
  TK_EACH(i) {
    const float u = 1.0f - first.at[i];  // in (0, 1], for the logarithm
    r.at[i] = ::sqrtf(::logf(u) * -2.0f) * scalar::sin_core(second.at[i] * 6.28318531f, 1);
  }
  return r;
}
}  // namespace impl

// --- the graph's random operators: of the seed, the operator's number and the element's. In
// vectors seed and number are the same in every lane; `_run` is of W neighbours from a multiple of
// W on.

// Uniform in [0, 1): of word e % 4 of block e / 4.
template <int W>
TK_FN Vec<float, W> philox_uniform(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                   Vec<int64_t, W> element) {
  return impl::uniform(impl::words_of_each<4>(seed.at[0], stream.at[0], element));
}
template <int W>
TK_FN Vec<float, W> philox_uniform_run(Vec<int64_t, 1> seed, Vec<int64_t, 1> stream,
                                       int64_t first) {
  return impl::uniform(impl::words_of_run<4, W>(seed.at[0], stream.at[0], uint64_t(first)));
}
// Whether their words are at least `least`: with 2^8 k, whether the numbers are at least 2^-24 k.
template <int W>
TK_FN Mask<W> philox_at_least_run(Vec<int64_t, 1> seed, Vec<int64_t, 1> stream, int64_t first,
                                  uint32_t least) {
  const auto words = impl::words_of_run<4, W>(seed.at[0], stream.at[0], uint64_t(first));
  Mask<W> m;
  TK_EACH(i) m.at[i] = words.at[0].at[i] >= least;
  return m;
}
// Standard normal (Box and Muller 1958): of words 2 (e % 2) and the next of block e / 2.
template <int W>
TK_FN Vec<float, W> philox_normal(Vec<int64_t, W> seed, Vec<int64_t, W> stream,
                                  Vec<int64_t, W> element) {
  return impl::normal(impl::words_of_each<2>(seed.at[0], stream.at[0], element));
}
template <int W>
TK_FN Vec<float, W> philox_normal_run(Vec<int64_t, 1> seed, Vec<int64_t, 1> stream, int64_t first) {
  return impl::normal(impl::words_of_run<2, W>(seed.at[0], stream.at[0], uint64_t(first)));
}

}  // namespace tk

#endif  // TENSORD_CUDA_RANDOM_CUH_
