// SPDX-License-Identifier: Apache-2.0
// Loads and stores of storage types S as vectors of Compute<S>. Nothing needs alignment. A masked
// or partial access touches no memory where a lane is off; a load gives 0 there.
#ifndef TENSORD_CPU_MEMORY_H_
#define TENSORD_CPU_MEMORY_H_

#include "avx2.h"
#include "convert.h"

namespace tk {

// Whether AVX2 has instructions for the lanes that are on.
template <class U, int W>
inline constexpr bool kByAvx2 = TK_AVX2 && !TK_AVX512 && W == 8 && sizeof(U) >= 4;

// --- on bits

template <int W, class U>
TK_FN Vec<U, W> load_bits(const U* p) {
  using V = Vec<U, W>;
  V r;
  TK_EACH_PART(q, V, __builtin_memcpy(&r.part[q], p + q * V::kPartLanes, sizeof(r.part[q])););
  return r;
}
template <int W, class U>
TK_FN void store_bits(U* p, Vec<U, W> v) {
  using V = Vec<U, W>;
  TK_EACH_PART(q, V, __builtin_memcpy(p + q * V::kPartLanes, &v.part[q], sizeof(v.part[q])););
}

template <int W, class U>
TK_FN Vec<U, W> load_bits_masked(const U* p, Mask<W> on) {
  using V = Vec<U, W>;
  if constexpr (kBitMask<W>) {
    V r;
#if TK_AVX512
    TK_EACH_PART(q, V,
                 r.part[q] = avx512::load<U, typename V::Part>(p + q * V::kPartLanes,
                                                               avx512::part_of_mask<q>(on.bits)););
#endif
    return r;
#if TK_AVX2 && !TK_AVX512
  } else if constexpr (kByAvx2<U, W>) {
    return avx2::load(p, on);
#endif
  } else {
    Lanes<U, W> r{};
    for (int i = 0; i < W; ++i)
      if (get(on, i)) r.at[i] = p[i];
    return from_lanes<W>(r);
  }
}
template <int W, class U>
TK_FN void store_bits_masked(U* p, Vec<U, W> v, Mask<W> on) {
  if constexpr (kBitMask<W>) {
#if TK_AVX512
    using V = Vec<U, W>;
    TK_EACH_PART(
        q, V,
        avx512::store<U>(p + q * V::kPartLanes, v.part[q], avx512::part_of_mask<q>(on.bits)););
#endif
#if TK_AVX2 && !TK_AVX512
  } else if constexpr (kByAvx2<U, W>) {
    avx2::store(p, v, on);
#endif
  } else {
    const Lanes<U, W> x = to_lanes(v);
    for (int i = 0; i < W; ++i)
      if (get(on, i)) p[i] = x.at[i];
  }
}

template <int W, class U>
TK_FN Vec<U, W> gather_bits(const U* base, Vec<int64_t, W> index, Mask<W> on) {
#if TK_AVX512
  if constexpr (kBitMask<W> && sizeof(U) == 8) {
    using P = typename Vec<U, W>::Part;
    using namespace avx512;
    return {(P)__builtin_ia32_gatherdiv8di(I64{}, base, (I64)index.part[0], on.bits, 8),
            (P)__builtin_ia32_gatherdiv8di(I64{}, base, (I64)index.part[1],
                                           part_of_mask<1>(on.bits), 8)};
  } else if constexpr (kBitMask<W> && sizeof(U) == 4) {
    using P = typename Vec<U, W>::Part;
    using namespace avx512;
    return {(P)join(__builtin_ia32_gatherdiv16si(I32h{}, base, (I64)index.part[0], on.bits, 4),
                    __builtin_ia32_gatherdiv16si(I32h{}, base, (I64)index.part[1],
                                                 part_of_mask<1>(on.bits), 4))};
  } else
#elif TK_AVX2
  if constexpr (kByAvx2<U, W>) {
    return avx2::gather(base, index, on);
  } else
#endif
  {
    const Lanes<int64_t, W> at = to_lanes(index);
    const unsigned bits = mask_bits(on);
    Lanes<U, W> r{};
    for (int i = 0; i < W; ++i)
      if (bits >> i & 1) r.at[i] = base[at.at[i]];
    return from_lanes<W>(r);
  }
}

template <class S>
TK_FN const Bits<S>* bits_of(const S* p) {
  return reinterpret_cast<const Bits<S>*>(p);
}
template <class S>
TK_FN Bits<S>* bits_of(S* p) {
  return reinterpret_cast<Bits<S>*>(p);
}

// --- loads

// p[0], ..., p[W-1].
template <class S, int W>
TK_FN Vec<Compute<S>, W> load(const S* p) {
  return decode<S>(load_bits<W>(bits_of(p)));
}
// The element as a scalar of the compute type.
template <class S>
TK_FN Compute<S> load_scalar(const S* p) {
  return get(load<S, 1>(p), 0);
}
// p[i] where lane i is on.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_masked(const S* p, Mask<W> on) {
  return decode<S>(load_bits_masked(bits_of(p), on));
}
// The first n elements, 0 <= n <= W.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_tail(const S* p, int64_t n) {
  if constexpr (kBitMask<W> || kByAvx2<Bits<S>, W>) {
    return load_masked<S, W>(p, mask_first<W>(n));
  } else {
    Lanes<Bits<S>, W> r{};
    for (int i = 0; i < n; ++i) r.at[i] = bits_of(p)[i];
    return decode<S>(from_lanes<W>(r));
  }
}
// p[0], p[stride], ...; stride in elements.
template <class S, int W>
TK_FN Vec<Compute<S>, W> strided(const S* p, int64_t stride) {
  Lanes<Bits<S>, W> r;
  for (int i = 0; i < W; ++i) r.at[i] = bits_of(p)[i * stride];
  return decode<S>(from_lanes<W>(r));
}
template <class S, int W>
TK_FN Vec<Compute<S>, W> strided_masked(const S* p, int64_t stride, Mask<W> on) {
  Lanes<Bits<S>, W> r{};
  const unsigned bits = mask_bits(on);
  for (int i = 0; i < W; ++i)
    if (bits >> i & 1) r.at[i] = bits_of(p)[i * stride];
  return decode<S>(from_lanes<W>(r));
}
// The first n elements of a strided row.
template <class S, int W>
TK_FN Vec<Compute<S>, W> strided_tail(const S* p, int64_t stride, int64_t n) {
  Lanes<Bits<S>, W> r{};
  for (int i = 0; i < n; ++i) r.at[i] = bits_of(p)[i * stride];
  return decode<S>(from_lanes<W>(r));
}
// p[0], p[2], ... and p[1], p[3], ... of the 2*W neighbours from p on.
namespace impl {
template <int first, int W, class U>
TK_FN Vec<U, W> every_other(const U* p) {
  using V = Vec<U, W>;
  V r;
  if constexpr (W == 1) {
    r.part[0] = p[first];
  } else {
    constexpr int n = V::kPartLanes;
    typedef typename V::Part Part;
    typedef U Index __attribute__((vector_size(sizeof(Part))));
    Index from{};
    for (int i = 0; i < n; ++i) from[i] = U(2 * i + first);
    TK_EACH_PART(q, V, Part a; Part b; __builtin_memcpy(&a, p + 2 * q * n, sizeof(a));
                 __builtin_memcpy(&b, p + 2 * q * n + n, sizeof(b));
                 r.part[q] = __builtin_shuffle(a, b, from););
  }
  return r;
}
}  // namespace impl
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_even(const S* p) {
  return decode<S>(impl::every_other<0, W>(bits_of(p)));
}
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_odd(const S* p) {
  return decode<S>(impl::every_other<1, W>(bits_of(p)));
}
// base[index[i]].
template <class S, int W>
TK_FN Vec<Compute<S>, W> gather(const S* base, Vec<int64_t, W> index) {
  if constexpr (kByAvx2<Bits<S>, W>) {
    // The instruction is no faster than single loads, and on some processors slower.
    const Lanes<int64_t, W> at = to_lanes(index);
    Lanes<Bits<S>, W> r;
    for (int i = 0; i < W; ++i) r.at[i] = bits_of(base)[at.at[i]];
    return decode<S>(from_lanes<W>(r));
  } else {
    return decode<S>(gather_bits<W>(bits_of(base), index, broadcast<W>(true)));
  }
}
template <class S, int W>
TK_FN Vec<Compute<S>, W> gather_masked(const S* base, Vec<int64_t, W> index, Mask<W> on) {
  return decode<S>(gather_bits<W>(bits_of(base), index, on));
}

// --- stores
// S comes from the pointer; the vector has S's compute type.

template <class S, int W>
TK_FN void store(S* p, Vec<Compute<S>, W> v) {
  store_bits<W>(bits_of(p), encode<S>(v));
}
template <class S, int W>
TK_FN void store_masked(S* p, Vec<Compute<S>, W> v, Mask<W> on) {
  store_bits_masked<W>(bits_of(p), encode<S>(v), on);
}
template <class S, int W>
TK_FN void store_tail(S* p, Vec<Compute<S>, W> v, int64_t n) {
  if constexpr (kBitMask<W> || kByAvx2<Bits<S>, W>) {
    store_masked<S, W>(p, v, mask_first<W>(n));
  } else {
    const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
    for (int i = 0; i < n; ++i) bits_of(p)[i] = x.at[i];
  }
}
template <class S>
TK_FN void store_scalar(S* p, Compute<S> x) {
  store<S, 1>(p, broadcast<1>(x));
}
template <class S, int W>
TK_FN void store_strided(S* p, int64_t stride, Vec<Compute<S>, W> v) {
  const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
  for (int i = 0; i < W; ++i) bits_of(p)[i * stride] = x.at[i];
}
template <class S, int W>
TK_FN void store_strided_masked(S* p, int64_t stride, Vec<Compute<S>, W> v, Mask<W> on) {
  const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
  const unsigned bits = mask_bits(on);
  for (int i = 0; i < W; ++i)
    if (bits >> i & 1) bits_of(p)[i * stride] = x.at[i];
}
template <class S, int W>
TK_FN void store_strided_tail(S* p, int64_t stride, Vec<Compute<S>, W> v, int64_t n) {
  const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
  for (int i = 0; i < n; ++i) bits_of(p)[i * stride] = x.at[i];
}
// p[0] = even[0], p[1] = odd[0], p[2] = even[1], ...
template <class S, int W>
TK_FN void store_pairs(S* p, Vec<Compute<S>, W> even, Vec<Compute<S>, W> odd) {
  using V = Vec<Bits<S>, W>;
  const V a = encode<S>(even), b = encode<S>(odd);
  if constexpr (W == 1) {
    bits_of(p)[0] = a.part[0], bits_of(p)[1] = b.part[0];
  } else {
    constexpr int n = V::kPartLanes;
    typedef typename V::Part Part;
    typedef Bits<S> Index __attribute__((vector_size(sizeof(Part))));
    Index low{}, high{};
    for (int i = 0; i < n; ++i) {
      low[i] = Bits<S>(i / 2 + i % 2 * n);
      high[i] = Bits<S>((n + i) / 2 + i % 2 * n);
    }
    TK_EACH_PART(q, V, const Part first = __builtin_shuffle(a.part[q], b.part[q], low);
                 const Part second = __builtin_shuffle(a.part[q], b.part[q], high);
                 __builtin_memcpy(bits_of(p) + 2 * q * n, &first, sizeof(first));
                 __builtin_memcpy(bits_of(p) + 2 * q * n + n, &second, sizeof(second)););
  }
}
// base[index[i]] = v[i], in lane order: the last of equal indices stays.
template <class S, int W>
TK_FN void scatter(S* base, Vec<int64_t, W> index, Vec<Compute<S>, W> v) {
  const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
  const Lanes<int64_t, W> at = to_lanes(index);
  for (int i = 0; i < W; ++i) bits_of(base)[at.at[i]] = x.at[i];
}
template <class S, int W>
TK_FN void scatter_masked(S* base, Vec<int64_t, W> index, Vec<Compute<S>, W> v, Mask<W> on) {
  const Lanes<Bits<S>, W> x = to_lanes(encode<S>(v));
  const Lanes<int64_t, W> at = to_lanes(index);
  const unsigned bits = mask_bits(on);
  for (int i = 0; i < W; ++i)
    if (bits >> i & 1) bits_of(base)[at.at[i]] = x.at[i];
}

}  // namespace tk

#endif  // TENSORD_CPU_MEMORY_H_
