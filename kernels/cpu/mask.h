// SPDX-License-Identifier: Apache-2.0
// Comparisons, selection, and the logic of masks.
#ifndef TENSORD_CPU_MASK_H_
#define TENSORD_CPU_MASK_H_

#include "avx512.h"
#include "vec.h"

namespace tk {

template <class To, class From, int W>
TK_FN Vec<To, W> convert_lanes(Vec<From, W> v);

// --- logic

#define TK_MASK_OPERATOR(op)                        \
  template <int W>                                  \
  TK_FN Mask<W> operator op(Mask<W> a, Mask<W> b) { \
    if constexpr (W == 1)                           \
      return {bool(a.on op b.on)};                  \
    else if constexpr (kBitMask<W>)                 \
      return {uint16_t(a.bits op b.bits)};          \
    else                                            \
      return {a.lanes op b.lanes};                  \
  }
TK_MASK_OPERATOR(&)
TK_MASK_OPERATOR(|)
TK_MASK_OPERATOR(^)
#undef TK_MASK_OPERATOR

template <int W>
TK_FN Mask<W> operator~(Mask<W> a) {
  if constexpr (W == 1)
    return {!a.on};
  else if constexpr (kBitMask<W>)
    return {uint16_t(~a.bits)};
  else
    return {~a.lanes};
}

// A bit per lane, lane 0 lowest.
template <int W>
TK_FN unsigned mask_bits(Mask<W> m) {
  if constexpr (W == 1) {
    return m.on;
  } else if constexpr (kBitMask<W>) {
    return plain_bits(m);
#if TK_AVX2
  } else if constexpr (W == 8) {
    typedef float V8 __attribute__((vector_size(32)));
    return unsigned(__builtin_ia32_movmskps256(__builtin_bit_cast(V8, m.lanes.part[0])));
#endif
  } else {
    unsigned bits = 0;
    for (int i = 0; i < W; ++i) bits |= unsigned(get(m, i)) << i;
    return bits;
  }
}
template <int W>
TK_FN bool mask_any(Mask<W> m) {
  if constexpr (kBitMask<W>)
    return m.bits != 0;
  else
    return mask_bits(m) != 0;
}
template <int W>
TK_FN bool mask_all(Mask<W> m) {
  if constexpr (kBitMask<W>)
    return m.bits == 0xffff;
  else
    return mask_bits(m) == (1u << W) - 1;
}

// The first n lanes on, 0 <= n <= W.
template <int W>
TK_FN Mask<W> mask_first(int64_t n) {
  if constexpr (W == 1) {
    return {n > 0};
  } else if constexpr (kBitMask<W>) {
    return {uint16_t((1u << n) - 1)};
  } else {
    const Vec<int32_t, W> lane = iota<int32_t, W>(0), count = broadcast<W>(int32_t(n));
    Mask<W> m;
    using V = Vec<int32_t, W>;
    TK_EACH_PART(p, V, m.lanes.part[p] = lane.part[p] < count.part[p];);
    return m;
  }
}

// --- comparisons: false where an operand is NaN, but for ne

#define TK_COMPARE(name, order, op)                            \
  template <class T, int W>                                    \
  TK_FN Mask<W> name(Vec<T, W> a, Vec<T, W> b) {               \
    if constexpr (W == 1) {                                    \
      return {a.part[0] op b.part[0]};                         \
    } else if constexpr (kBitMask<W>) {                        \
      TK_COMPARE_BITS(order);                                  \
    } else {                                                   \
      using V = Vec<typename SIntOf<Bits<T>>::type, W>;        \
      V r;                                                     \
      TK_EACH_PART(p, V, r.part[p] = a.part[p] op b.part[p];); \
      return {convert_lanes<int32_t>(r)};                      \
    }                                                          \
  }
#if TK_AVX512
#define TK_COMPARE_BITS(order)                                                    \
  const uint16_t first = avx512::compare<T, avx512::order>(a.part[0], b.part[0]); \
  if constexpr (Vec<T, W>::kParts == 1)                                           \
    return {first};                                                               \
  else                                                                            \
    return { avx512::join_masks(first, avx512::compare<T, avx512::order>(a.part[1], b.part[1])) }
#else
#define TK_COMPARE_BITS(order)
#endif
TK_COMPARE(eq, kEq, ==)
TK_COMPARE(ne, kNe, !=)
TK_COMPARE(lt, kLt, <)
TK_COMPARE(le, kLe, <=)
#undef TK_COMPARE
#undef TK_COMPARE_BITS
template <class T, int W>
TK_FN Mask<W> gt(Vec<T, W> a, Vec<T, W> b) {
  return lt(b, a);
}
template <class T, int W>
TK_FN Mask<W> ge(Vec<T, W> a, Vec<T, W> b) {
  return le(b, a);
}
template <int W>
TK_FN Mask<W> eq(Mask<W> a, Mask<W> b) {
  return ~(a ^ b);
}
template <int W>
TK_FN Mask<W> ne(Mask<W> a, Mask<W> b) {
  return a ^ b;
}
template <int W>
TK_FN Mask<W> lt(Mask<W> a, Mask<W> b) {
  return ~a & b;
}
template <int W>
TK_FN Mask<W> le(Mask<W> a, Mask<W> b) {
  return ~a | b;
}
template <int W>
TK_FN Mask<W> gt(Mask<W> a, Mask<W> b) {
  return a & ~b;
}
template <int W>
TK_FN Mask<W> ge(Mask<W> a, Mask<W> b) {
  return a | ~b;
}

// --- selection

// Per lane: on ? a : b.
template <class T, int W>
TK_FN Vec<T, W> where(Mask<W> on, Vec<T, W> a, Vec<T, W> b) {
  using V = Vec<T, W>;
  if constexpr (kSame<T, bool>) {
    return (on & a) | (~on & b);
  } else if constexpr (W == 1) {
    return {on.on ? a.part[0] : b.part[0]};
  } else {
    V r;
    if constexpr (kBitMask<W>) {
#if TK_AVX512
      TK_EACH_PART(
          p, V,
          r.part[p] = avx512::blend<T>(avx512::part_of_mask<p>(on.bits), a.part[p], b.part[p]););
#endif
    } else {
      using M = typename SIntOf<Bits<T>>::type;
      const Vec<M, W> m = convert_lanes<M>(on.lanes);
      TK_EACH_PART(p, V, r.part[p] = m.part[p] ? a.part[p] : b.part[p];);
    }
    return r;
  }
}

// x where on, else 0.
template <class T, int W>
TK_FN Vec<T, W> where_or_zero(Mask<W> on, Vec<T, W> x) {
  return where(on, x, broadcast<W>(T(0)));
}

}  // namespace tk

#endif  // TENSORD_CPU_MASK_H_
