// SPDX-License-Identifier: Apache-2.0
// Vec<T, W>: W lanes of T. All types of one loop have the same W, so a wide type takes several
// native registers ("parts"): GCC lowers vectors that are wider than the machine poorly, so parts
// are explicit.
//
// Vec<bool, W> is a mask: lane bits on AVX-512, int32 lanes of 0 and -1 elsewhere, a plain bool at
// W=1.
#ifndef TENSORD_CPU_VEC_H_
#define TENSORD_CPU_VEC_H_

#include "types.h"

namespace tk {

template <class T, int N>
struct PartOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T>
struct PartOf<T, 1> {
  typedef T type;
};

template <class T, int W>
struct Vec {
  static constexpr int kPartLanes =
      W * int(sizeof(T)) <= kNativeBytes ? W : kNativeBytes / int(sizeof(T));
  static constexpr int kParts = W / kPartLanes;
  static_assert(kParts <= 4, "a loop has at most four native registers of its widest type");
  typedef typename PartOf<T, kPartLanes>::type Part;
  Part part[kParts];
};

template <int W>
using Mask = Vec<bool, W>;

template <>
struct Vec<bool, 1> {
  bool on;
};
template <int W>
struct Vec<bool, W> {
  Vec<int32_t, W> lanes;
};
#if TK_AVX512
template <>
struct Vec<bool, 16> {
  uint16_t bits;
};
#endif
// Whether masks of W lanes are bits in a mask register.
template <int W>
inline constexpr bool kBitMask = TK_AVX512 && W == 16;

// Runs `...` for each part, with a constant part number: scalar replacement of the parts must not
// wait for the loop optimiser.
#define TK_EACH_PART(p, V, ...)    \
  do {                             \
    {                              \
      constexpr int p = 0;         \
      __VA_ARGS__                  \
    }                              \
    if constexpr (V::kParts > 1) { \
      constexpr int p = 1;         \
      __VA_ARGS__                  \
    }                              \
    if constexpr (V::kParts > 2) { \
      {                            \
        constexpr int p = 2;       \
        __VA_ARGS__                \
      }                            \
      {                            \
        constexpr int p = 3;       \
        __VA_ARGS__                \
      }                            \
    }                              \
  } while (0)

// --- lanes

// The bits of a bit mask in a general register. The barrier keeps GCC 12 from fusing the comparison
// with the widening to int, whose result it can spill by the byte (see join_masks).
template <int W>
TK_FN unsigned plain_bits(Vec<bool, W> m) {
  uint16_t bits = m.bits;
  __asm__("" : "+r"(bits));
  return bits;
}

template <class T, int W>
TK_FN T get(Vec<T, W> v, int i) {
  if constexpr (kSame<T, bool>) {
    if constexpr (W == 1)
      return v.on;
    else if constexpr (kBitMask<W>)
      return (plain_bits(v) >> i) & 1;
    else
      return get(v.lanes, i) != 0;
  } else if constexpr (W == 1) {
    return v.part[0];
  } else {
    return v.part[i / Vec<T, W>::kPartLanes][i % Vec<T, W>::kPartLanes];
  }
}

// Calls f(lane value...) per lane: for what has no vector instruction.
template <class R, int W, class F, class... T>
TK_FN Vec<R, W> map_lanes(F f, Vec<T, W>... v);

template <int W, class T>
TK_FN Vec<T, W> broadcast(T x) {
  Vec<T, W> r;
  if constexpr (kSame<T, bool>) {
    if constexpr (W == 1)
      r.on = x;
    else if constexpr (kBitMask<W>)
      r.bits = x ? 0xffff : 0;
    else
      r.lanes = broadcast<W>(int32_t(x ? -1 : 0));
  } else {
    using V = Vec<T, W>;
    if constexpr (W == 1)
      r.part[0] = x;
    else
      TK_EACH_PART(p, V, r.part[p] = x - (typename V::Part){};);
  }
  return r;
}

// A vector of v's type that holds x in all lanes: `like(v, 0.5f)`.
template <class T>
struct AsIs {
  typedef T type;
};
template <class T, int W>
TK_FN Vec<T, W> like(Vec<T, W>, typename AsIs<T>::type x) {
  return broadcast<W>(T(x));
}

template <class T, int N>
struct Lanes {
  T at[N];
};

template <class T, int W>
TK_FN Lanes<T, W> to_lanes(Vec<T, W> v) {
  Lanes<T, W> r;
  if constexpr (kSame<T, bool>) {
    if constexpr (W == 1)
      r.at[0] = v.on;
    else
      for (int i = 0; i < W; ++i) r.at[i] = get(v, i);
  } else {
    __builtin_memcpy(r.at, v.part, sizeof(r));
  }
  return r;
}

template <int W, class T>
TK_FN Vec<T, W> from_lanes(Lanes<T, W> a) {
  Vec<T, W> r;
  if constexpr (kSame<T, bool>) {
    if constexpr (W == 1) {
      r.on = a.at[0];
    } else if constexpr (kBitMask<W>) {
      unsigned bits = 0;
      for (int i = 0; i < W; ++i) bits |= unsigned(a.at[i]) << i;
      r.bits = uint16_t(bits);
    } else {
      Lanes<int32_t, W> x;
      for (int i = 0; i < W; ++i) x.at[i] = a.at[i] ? -1 : 0;
      r.lanes = from_lanes<W>(x);
    }
  } else {
    __builtin_memcpy(r.part, a.at, sizeof(a));
  }
  return r;
}

template <class R, int W, class F, class... T>
TK_FN Vec<R, W> map_lanes(F f, Vec<T, W>... v) {
  Lanes<R, W> r;
  auto run = [&](const auto&... a) __attribute__((always_inline)) {
    // Not unrolled: the body is a call or a long scalar sequence, and code size is compile time.
#pragma GCC unroll 1
    for (int i = 0; i < W; ++i) r.at[i] = f(a.at[i]...);
  };
  run(to_lanes(v)...);
  return from_lanes<W>(r);
}

template <int... I>
struct Numbers {};
template <int N>
using NumbersTo = Numbers<__integer_pack(N)...>;
// first, first+1, ...: a constant from the start, which a loop becomes late and at a price.
template <class Part, class T, int... I>
TK_FN Part counted(T first, Numbers<I...>) {
  return Part{T(first + T(I))...};
}

// start, start+1, ...
template <class T, int W>
TK_FN Vec<T, W> iota(T start) {
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(
      p, V,
      r.part[p] = counted<typename V::Part>(T(p * V::kPartLanes), NumbersTo<V::kPartLanes>{}) +
                  broadcast<W>(start).part[p];);
  return r;
}

// --- operators
// Integers wrap (kernels are compiled with -fwrapv). `/` is for floats; integers use trunc_div.

#define TK_OPERATOR(op)                                                        \
  template <class T, int W>                                                    \
  TK_FN Vec<T, W> operator op(Vec<T, W> a, Vec<T, W> b) {                      \
    using V = Vec<T, W>;                                                       \
    V r;                                                                       \
    TK_EACH_PART(p, V, r.part[p] = typename V::Part(a.part[p] op b.part[p]);); \
    return r;                                                                  \
  }
TK_OPERATOR(+)
TK_OPERATOR(-)
TK_OPERATOR(*)
TK_OPERATOR(/)
TK_OPERATOR(&)
TK_OPERATOR(|)
TK_OPERATOR(^)
#undef TK_OPERATOR

template <class T, int W>
TK_FN Vec<T, W> operator-(Vec<T, W> a) {
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(-a.part[p]););
  return r;
}
template <class T, int W>
TK_FN Vec<T, W> operator~(Vec<T, W> a) {
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(~a.part[p]););
  return r;
}
// Shifts by a count that is the same in all lanes, 0 <= count < bits of T.
template <class T, int W>
TK_FN Vec<T, W> operator<<(Vec<T, W> a, int count) {
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(a.part[p] << count););
  return r;
}
template <class T, int W>
TK_FN Vec<T, W> operator>>(Vec<T, W> a, int count) {
  using V = Vec<T, W>;
  V r;
  TK_EACH_PART(p, V, r.part[p] = typename V::Part(a.part[p] >> count););
  return r;
}

// The same bits as another type of the same size.
template <class To, class From, int W>
TK_FN Vec<To, W> bitcast(Vec<From, W> v) {
  static_assert(sizeof(To) == sizeof(From));
  if constexpr (kSame<To, From>) {
    return v;
  } else {
    using V = Vec<To, W>;
    V r;
    TK_EACH_PART(p, V, r.part[p] = __builtin_bit_cast(typename V::Part, v.part[p]););
    return r;
  }
}

}  // namespace tk

#endif  // TENSORD_CPU_VEC_H_
