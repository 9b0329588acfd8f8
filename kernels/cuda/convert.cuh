// SPDX-License-Identifier: Apache-2.0
// cast<To>: conversions with PyTorch's meaning, and the bits of the small floats, one by one and as
// packed words.
#ifndef TENSORD_CUDA_CONVERT_CUH_
#define TENSORD_CUDA_CONVERT_CUH_

#include "tensord/cuda/mask.cuh"
#include "tensord/cuda/ptx.cuh"

namespace tk {
namespace scalar {

#if !TK_HAS_E4M3
// Exact, subnormals included: as a float the magnitude is too small by a power of two.
TK_FN float decode_e4m3(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7f;
  const float x = __builtin_bit_cast(float, magnitude << 20) * 0x1p120f;
  const uint32_t r = magnitude == 0x7f ? 0x7fc00000u : __builtin_bit_cast(uint32_t, x);
  return __builtin_bit_cast(float, r | (bits & 0x80) << 24);
}
#endif

// For e4m3 (where the machine has no instruction) and e5m2: E exponent bits and M mantissa bits,
// rounded to nearest even. What is too large becomes infinity, or the largest number in e4m3, which
// has no infinity (PyTorch 2.13). Method: FP16 (Maratyszcza), as PyTorch has it in c10/util.
template <int E, int M>
TK_FN uint32_t encode_float8(float v) {
  constexpr bool kFinite = E == 4;
  constexpr int kBias = (1 << (E - 1)) - 1;
  const uint32_t bits = __builtin_bit_cast(uint32_t, v), x = bits & 0x7fffffffu;
  constexpr uint32_t kTop = kFinite ? 0x7e : ((1u << E) - 1) << M;
  constexpr uint32_t kBeyond = kFinite ? 0x43e00000u : uint32_t(127 + kBias + 1) << 23;
  uint32_t r;
  if (x > 0x7f800000u) {
    r = 0x7f;
  } else if (x >= kBeyond) {
    r = kTop;
  } else if (x < uint32_t(128 - kBias) << 23) {
    // Adding a number whose unit in the last place is the result's makes the adder round.
    constexpr uint32_t kAlign = uint32_t(127 - kBias + 23 - M + 1) << 23;
    const float sum = __builtin_bit_cast(float, x) + __builtin_bit_cast(float, kAlign);
    r = __builtin_bit_cast(uint32_t, sum) - kAlign;
  } else {
    constexpr uint32_t kRebias = (uint32_t(kBias - 127) << 23) + ((1u << (22 - M)) - 1);
    r = (x + kRebias + (x >> (23 - M) & 1)) >> (23 - M);
  }
  return r | (bits & 0x80000000u) >> 24;
}

// --- decode and encode: between an element's bits and what it is computed in

template <class S>
TK_FN Compute<S> decode(Bits<S> bits) {
  if constexpr (kSame<S, bool>) {
    return bits != 0;
  } else if constexpr (kSame<S, half>) {
    return ptx::half_to_float(bits);
  } else if constexpr (kSame<S, bfloat16>) {
    return __builtin_bit_cast(float, uint32_t(bits) << 16);
  } else if constexpr (kSame<S, float8_e5m2>) {
    return ptx::half_to_float(uint16_t(bits << 8));  // a half without its low mantissa bits
  } else if constexpr (kSame<S, float8_e4m3fn>) {
#if TK_HAS_E4M3
    return ptx::half_to_float(uint16_t(ptx::e4m3s_to_halves(bits)));
#else
    return decode_e4m3(bits);
#endif
  } else {
    return __builtin_bit_cast(S, bits);
  }
}
template <class S>
TK_FN Bits<S> encode(Compute<S> x) {
  if constexpr (kSame<S, bool>) {
    return x ? 1 : 0;
  } else if constexpr (kSame<S, half>) {
    return ptx::float_to_half(x);
  } else if constexpr (kSame<S, bfloat16>) {
    return ptx::float_to_bfloat16(x);
  } else if constexpr (kSame<S, float8_e5m2>) {
    return Bits<S>(encode_float8<5, 2>(x));
  } else if constexpr (kSame<S, float8_e4m3fn>) {
#if TK_HAS_E4M3
    return Bits<S>(ptx::floats_to_e4m3s(x, 0.0f));
#else
    return Bits<S>(encode_float8<4, 3>(x));
#endif
  } else {
    return __builtin_bit_cast(Bits<S>, x);
  }
}

template <class To, class From>
TK_FN Compute<To> cast(From x) {
  if constexpr (kSame<To, From>)
    return x;
  else if constexpr (kIsSmallFloat<To>)
    return decode<To>(encode<To>(cast<float>(x)));
  else if constexpr (kSame<To, bool>)
    return x != From(0);
  else if constexpr (kIsFloat<From> && !kIsFloat<To> && sizeof(To) < 4)
    return To(int32_t(x));  // wraps, as PyTorch does
  else if constexpr (kIsFloat<From> && kSame<To, uint32_t>)
    return To(int64_t(x));
  else
    return To(x);
}

}  // namespace scalar

// To another type, as Tensor.to: floats truncate towards zero, anything that is not 0 is true. For
// a small float the result is a float that has been rounded to it.
template <class To, class From, int W>
TK_FN Vec<Compute<To>, W> cast(Vec<From, W> v) {
  Vec<Compute<To>, W> r;
  TK_EACH(i) r.at[i] = scalar::cast<To>(v.at[i]);
  return r;
}
// static_cast per lane.
template <class To, class From, int W>
TK_FN Vec<To, W> convert_lanes(Vec<From, W> v) {
  Vec<To, W> r;
  TK_EACH(i) r.at[i] = To(v.at[i]);
  return r;
}

// --- W elements of S side by side in words, as they lie in memory

template <class S, int W>
struct Packed {
  typedef typename Choose<sizeof(S) == 8, unsigned long long, uint32_t>::type Word;
  enum : int {
    kBytes = W * int(sizeof(S)),
    kWords = (kBytes + int(sizeof(Word)) - 1) / int(sizeof(Word)),
  };
  Word word[kWords];
};

template <class S, int W>
TK_FN Vec<Compute<S>, W> unpack(Packed<S, W> p) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) {
    if constexpr (sizeof(S) >= 4)
      r.at[i] = __builtin_bit_cast(S, p.word[i]);
    else if constexpr (kSame<S, bfloat16>)
      r.at[i] =
          __builtin_bit_cast(float, i & 1 ? p.word[i / 2] & 0xffff0000u : p.word[i / 2] << 16);
    else if constexpr (sizeof(S) == 2)
      r.at[i] = scalar::decode<S>(Bits<S>(p.word[i / 2] >> 16 * (i & 1)));
    else
      r.at[i] = scalar::decode<S>(Bits<S>(p.word[i / 4] >> 8 * (i & 3)));
  }
  return r;
}
template <class S, int W>
TK_FN Packed<S, W> pack(Vec<Compute<S>, W> v) {
  Packed<S, W> p = {};
  if constexpr (sizeof(S) >= 4) {
    TK_EACH(i) p.word[i] = __builtin_bit_cast(typename Packed<S, W>::Word, v.at[i]);
  } else if constexpr (W == 1) {
    p.word[0] = scalar::encode<S>(v.at[0]);
  } else if constexpr (kSame<S, half> || kSame<S, bfloat16>) {
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      if constexpr (kSame<S, half>)
        p.word[i / 2] = ptx::floats_to_halves(v.at[i], v.at[i + 1]);
      else
        p.word[i / 2] = ptx::floats_to_bfloat16s(v.at[i], v.at[i + 1]);
    }
#if TK_HAS_E4M3
  } else if constexpr (kSame<S, float8_e4m3fn>) {
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      const uint32_t pair = ptx::floats_to_e4m3s(v.at[i], v.at[i + 1]);
      p.word[i / 4] |= pair << 8 * (i & 2);
    }
#endif
  } else {
    constexpr int kPerWord = 4 / int(sizeof(S)), kBits = 8 * int(sizeof(S));
    TK_EACH(i) {
      const uint32_t bits = uint32_t(scalar::encode<S>(v.at[i])) << kBits * (i % kPerWord);
      p.word[i / kPerWord] |= bits;
    }
  }
  return p;
}

// What a store to S and a load from it would leave of v.
template <class S, int W>
TK_FN Vec<Compute<S>, W> round_to(Vec<Compute<S>, W> v) {
  return unpack<S, W>(pack<S, W>(v));
}

}  // namespace tk

#endif  // TENSORD_CUDA_CONVERT_CUH_
