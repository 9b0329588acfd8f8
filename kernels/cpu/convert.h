// SPDX-License-Identifier: Apache-2.0
// cast<To>: conversions with PyTorch's meaning, and the bits of the small floats.
#ifndef TENSORD_CPU_CONVERT_H_
#define TENSORD_CPU_CONVERT_H_

#include "mask.h"

namespace tk {

// --- lanes to lanes, between computable types

#if TK_AVX512
// The pairs that kernels meet in hot loops and that GCC splits badly. Returns false when not a
// pair.
template <class To, class From>
TK_FN bool convert_avx512(const Vec<From, 16>& v, Vec<To, 16>& r) {
  using namespace avx512;
  constexpr bool four_to_eight = sizeof(From) == 4 && sizeof(To) == 8;
  constexpr bool eight_to_four = sizeof(From) == 8 && sizeof(To) == 4;
  using P = typename Vec<To, 16>::Part;
  if constexpr (four_to_eight && kSame<From, float> && kSame<To, double>) {
    r.part[0] = widen(low(v.part[0])), r.part[1] = widen(high(v.part[0]));
  } else if constexpr (eight_to_four && kSame<From, double> && kSame<To, float>) {
    r.part[0] = join(narrow(v.part[0]), narrow(v.part[1]));
  } else if constexpr (four_to_eight && !kIsFloat<From> && !kIsFloat<To>) {
    const I32 x = (I32)v.part[0];
    if constexpr (kIsSigned<From>)
      r.part[0] = (P)widen(low(x)), r.part[1] = (P)widen(high(x));
    else
      r.part[0] = (P)widen_unsigned(low(x)), r.part[1] = (P)widen_unsigned(high(x));
  } else if constexpr (eight_to_four && !kIsFloat<From> && !kIsFloat<To>) {
    r.part[0] = (P)join(narrow((I64)v.part[0]), narrow((I64)v.part[1]));
  } else if constexpr (kSame<From, int64_t> && kSame<To, float>) {
    r.part[0] = join(to_float((I64)v.part[0]), to_float((I64)v.part[1]));
  } else if constexpr (kSame<From, float> && kSame<To, int64_t>) {
    r.part[0] = (P)truncate(low(v.part[0])), r.part[1] = (P)truncate(high(v.part[0]));
  } else if constexpr (kSame<From, int32_t> && kSame<To, double>) {
    r.part[0] = widen_to_double(low(v.part[0])), r.part[1] = widen_to_double(high(v.part[0]));
  } else if constexpr (sizeof(From) < 4 && sizeof(To) == 4 && !kIsFloat<To>) {
    using V = typename Lane<From>::V;
    r.part[0] = (P)widen_to_int<kIsSigned<From>>((V)v.part[0]);
  } else if constexpr (sizeof(From) == 4 && sizeof(To) < 4 && !kIsFloat<From>) {
    r.part[0] = (P)narrow_int((I32)v.part[0], typename Lane<To>::V{});
  } else {
    return false;
  }
  return true;
}
#endif

// static_cast per lane. A float that does not fit its integer gives some integer, and no trap.
template <class To, class From, int W>
TK_FN Vec<To, W> convert_lanes(Vec<From, W> v) {
  using V = Vec<To, W>;
  if constexpr (kSame<To, From>) {
    return v;
  } else if constexpr (W == 1) {
    return {To(v.part[0])};
  } else if constexpr (!kIsFloat<To> && !kIsFloat<From> && sizeof(To) == sizeof(From)) {
    return bitcast<To>(v);
  } else if constexpr (kBitMask<W> && ((sizeof(From) < 4 && (sizeof(To) == 8 || kIsFloat<To>)) ||
                                       (sizeof(To) < 4 && (sizeof(From) == 8 || kIsFloat<From>)))) {
    return convert_lanes<To>(
        convert_lanes<int32_t>(v));  // int32 holds every value of the small one
  } else {
    V r;
#if TK_AVX512
    if constexpr (W == 16) {
      if (convert_avx512<To, From>(v, r)) return r;
    }
#endif
    if constexpr (V::kParts == Vec<From, W>::kParts) {
      TK_EACH_PART(p, V, r.part[p] = __builtin_convertvector(v.part[p], typename V::Part););
    } else {
      typedef From WholeFrom __attribute__((vector_size(sizeof(From) * W)));
      typedef To WholeTo __attribute__((vector_size(sizeof(To) * W)));
      const WholeTo whole = __builtin_convertvector(__builtin_bit_cast(WholeFrom, v), WholeTo);
      __builtin_memcpy(r.part, &whole, sizeof(r));
    }
    return r;
  }
}

// --- small floats: E exponent bits and M mantissa bits

// The bits lie in the low 1+E+M bits of each lane. Exact, subnormals included.
template <int E, int M, int W>
TK_FN Vec<float, W> decode_float(Vec<uint32_t, W> bits) {
  constexpr int kBias = (1 << (E - 1)) - 1;
  constexpr uint32_t kMagnitude = (1u << (E + M)) - 1;
  const Vec<uint32_t, W> magnitude = bits & like(bits, kMagnitude);
  const Vec<uint32_t, W> sign = (bits & like(bits, kMagnitude + 1)) << (31 - E - M);
  // As a float the magnitude is too small by a power of two; multiplying puts the exponent right
  // and normalises what is subnormal in the small format.
  Vec<float, W> x = bitcast<float>(magnitude << (23 - M));
  x = x * like(x, __builtin_bit_cast(float, uint32_t(254 - kBias) << 23));
  Vec<uint32_t, W> r = bitcast<uint32_t>(x);
  if constexpr (E == 4 && M == 3) {  // e4m3fn: no infinity, one NaN
    r = where(eq(magnitude, like(bits, kMagnitude)), like(bits, 0x7fc00000u), r);
  } else {
    const auto special =
        ge(bitcast<int32_t>(magnitude), broadcast<W>(int32_t(((1u << E) - 1) << M)));
    r = where(special, (magnitude << (23 - M)) | like(bits, 0x7f800000u), r);
  }
  return bitcast<float>(r | sign);
}

// Rounds to nearest even. What is too large becomes infinity, or the largest number in e4m3fn,
// which has no infinity (PyTorch 2.13). Method: FP16 (Maratyszcza), as PyTorch has it in c10/util.
template <int E, int M, int W>
TK_FN Vec<uint32_t, W> encode_float(Vec<float, W> v) {
  constexpr bool kFinite = E == 4 && M == 3;
  constexpr int kBias = (1 << (E - 1)) - 1;
  const Vec<uint32_t, W> bits = bitcast<uint32_t>(v);
  const Vec<uint32_t, W> sign = (bits & like(bits, 0x80000000u)) >> (31 - E - M);
  const Vec<uint32_t, W> x = bits & like(bits, 0x7fffffffu);
  // Subnormal results: adding a number whose unit in the last place is theirs makes the adder
  // round.
  constexpr uint32_t kAlign = uint32_t(127 - kBias + 23 - M + 1) << 23;
  const Vec<float, W> align = broadcast<W>(__builtin_bit_cast(float, kAlign));
  const Vec<uint32_t, W> tiny = bitcast<uint32_t>(bitcast<float>(x) + align) - like(bits, kAlign);
  const Vec<uint32_t, W> odd = (x >> (23 - M)) & like(bits, 1u);
  constexpr uint32_t kRebias = (uint32_t(kBias - 127) << 23) + ((1u << (22 - M)) - 1);
  const Vec<uint32_t, W> normal = (x + like(bits, kRebias) + odd) >> (23 - M);
  const Vec<int32_t, W> ix = bitcast<int32_t>(x);
  Vec<uint32_t, W> r =
      where(lt(ix, broadcast<W>(int32_t(uint32_t(128 - kBias) << 23))), tiny, normal);
  // The largest result: the code of infinity, or of 448 in e4m3fn; the lowest float beyond.
  constexpr uint32_t kTop = kFinite ? 0x7e : ((1u << E) - 1) << M;
  constexpr uint32_t kNan = kFinite ? 0x7f : M == 10 ? 0x7e00 : kTop | ((1u << M) - 1);
  constexpr uint32_t kBeyond = kFinite ? 0x43e00000u : uint32_t(127 + kBias + 1) << 23;
  r = where(ge(ix, broadcast<W>(int32_t(kBeyond))), like(bits, kTop), r);
  r = where(gt(ix, broadcast<W>(int32_t(0x7f800000))), like(bits, kNan), r);
  return r | sign;
}

// --- decode and encode: between an element's bits and what it is computed in

template <class S, int W>
TK_FN Vec<Compute<S>, W> decode(Vec<Bits<S>, W> bits) {
  if constexpr (kSame<S, bool>) {
    return ne(bits, broadcast<W>(uint8_t(0)));
  } else if constexpr (kSame<S, half>) {
#if TK_AVX512
    if constexpr (W == 16)
      return {__builtin_ia32_vcvtph2ps512_mask((avx512::I16)bits.part[0], avx512::F32{}, -1,
                                               avx512::kRoundCurrent)};
    else
#endif
#if TK_AVX2
        if constexpr (W == 8) {
      typedef short V8 __attribute__((vector_size(16)));
      return {__builtin_ia32_vcvtph2ps256((V8)bits.part[0])};
    } else
#endif
      return decode_float<5, 10>(convert_lanes<uint32_t>(bits));
  } else if constexpr (kSame<S, bfloat16>) {
    return bitcast<float>(convert_lanes<uint32_t>(bits) << 16);
  } else if constexpr (kSame<S, float8_e4m3fn>) {
    return decode_float<4, 3>(convert_lanes<uint32_t>(bits));
  } else if constexpr (kSame<S, float8_e5m2>) {
    return decode_float<5, 2>(convert_lanes<uint32_t>(bits));
  } else {
    return bitcast<S>(bits);
  }
}

template <class S, int W>
TK_FN Vec<Bits<S>, W> encode(Vec<Compute<S>, W> v) {
  if constexpr (kSame<S, bool>) {
    if constexpr (W == 1) return {uint8_t(v.on)};
#if TK_AVX512
    else if constexpr (W == 16)
      return {
          __builtin_bit_cast(typename Vec<uint8_t, W>::Part, __builtin_ia32_cvtmask2b128(v.bits)) &
          uint8_t(1)};
#endif
    else
      return convert_lanes<uint8_t>(bitcast<uint32_t>(v.lanes) & broadcast<W>(1u));
  } else if constexpr (kSame<S, half>) {
#if TK_AVX512
    if constexpr (W == 16)
      return {(typename Vec<uint16_t, W>::Part)__builtin_ia32_vcvtps2ph512_mask(v.part[0], 8,
                                                                                avx512::I16{}, -1)};
    else
#endif
#if TK_AVX2
        if constexpr (W == 8)
      return {(typename Vec<uint16_t, W>::Part)__builtin_ia32_vcvtps2ph256(v.part[0], 0)};
    else
#endif
      return convert_lanes<uint16_t>(encode_float<5, 10>(v));
  } else if constexpr (kSame<S, bfloat16>) {
    const Vec<uint32_t, W> bits = bitcast<uint32_t>(v);
    const Vec<uint32_t, W> odd = (bits >> 16) & like(bits, 1u);
    Vec<uint32_t, W> r = (bits + like(bits, 0x7fffu) + odd) >> 16;
    r = where(ne(v, v), like(bits, 0x7fc0u), r);
    return convert_lanes<uint16_t>(r);
  } else if constexpr (kSame<S, float8_e4m3fn>) {
    return convert_lanes<uint8_t>(encode_float<4, 3>(v));
  } else if constexpr (kSame<S, float8_e5m2>) {
    return convert_lanes<uint8_t>(encode_float<5, 2>(v));
  } else {
    return bitcast<Bits<S>>(v);
  }
}

// --- cast

// To another type, as Tensor.to: floats truncate towards zero, anything that is not 0 is true. For
// a small float the result is a float that has been rounded to it.
template <class To, class From, int W>
TK_FN Vec<Compute<To>, W> cast(Vec<From, W> v) {
  if constexpr (kSame<To, From>) {
    return v;
  } else if constexpr (!kSame<Compute<To>, To>) {
    return decode<To>(encode<To>(cast<float>(v)));
  } else if constexpr (kSame<To, bool>) {
    return ne(v, broadcast<W>(From(0)));
  } else if constexpr (kSame<From, bool>) {
    return where(v, broadcast<W>(To(1)), broadcast<W>(To(0)));
  } else if constexpr (kIsFloat<From> && !kIsFloat<To> && sizeof(To) < 4) {
    return convert_lanes<To>(convert_lanes<int32_t>(v));  // wraps, as PyTorch does
  } else if constexpr (kIsFloat<From> && kSame<To, uint32_t>) {
    return convert_lanes<To>(convert_lanes<int64_t>(v));
  } else {
    return convert_lanes<To>(v);
  }
}

}  // namespace tk

#endif  // TENSORD_CPU_CONVERT_H_
