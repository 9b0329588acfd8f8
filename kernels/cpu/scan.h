// SPDX-License-Identifier: Apache-2.0
// Prefixes along the lanes of vectors: lane i of a result is f of what stands before the vector and
// of lanes 0 to i, in this order. f takes and gives vectors and is associative.
#ifndef TENSORD_CPU_SCAN_H_
#define TENSORD_CPU_SCAN_H_

#include "arith.h"

namespace tk {

namespace impl {
template <int... I>
struct LaneNumbers {
  // Lane i is lane i - K of v, where there is one.
  template <int K, class P>
  static inline P behind(P v) {
    return __builtin_shufflevector(v, v, (I < K ? I : I - K)...);
  }
  // The first K lanes of a, the others of b.
  template <int K, class P>
  static inline P join(P a, P b) {
    return __builtin_shufflevector(a, b, (I < K ? I : int(sizeof...(I)) + I)...);
  }
  template <class P>
  static inline P last(P v) {
    return __builtin_shufflevector(v, v, (I - I + int(sizeof...(I)) - 1)...);
  }
};
template <int N>
struct LanesOfPart;
template <>
struct LanesOfPart<2> : LaneNumbers<0, 1> {};
template <>
struct LanesOfPart<4> : LaneNumbers<0, 1, 2, 3> {};
template <>
struct LanesOfPart<8> : LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7> {};
template <>
struct LanesOfPart<16> : LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15> {};

// Each part's lanes K and more with those K before them (Hillis and Steele 1986).
template <int K, class T, int W, class F>
TK_FN Vec<T, W> scan_step(Vec<T, W> v, F f) {
  using V = Vec<T, W>;
  if constexpr (K >= V::kPartLanes) {
    return v;
  } else {
    using L = LanesOfPart<V::kPartLanes>;
    V earlier;
    TK_EACH_PART(p, V, earlier.part[p] = L::template behind<K>(v.part[p]););
    const V both = f(earlier, v);
    TK_EACH_PART(p, V, v.part[p] = L::template join<K>(v.part[p], both.part[p]););
    return v;
  }
}

// The prefixes of a vector alone: log2(W) steps for all lanes of a part, and one for each part.
template <class T, int W, class F>
TK_FN Vec<T, W> scan_lanes(Vec<T, W> v, F f) {
  using V = Vec<T, W>;
  if constexpr (W > 1) {
    v = scan_step<1>(v, f);
    v = scan_step<2>(v, f);
    v = scan_step<4>(v, f);
    v = scan_step<8>(v, f);
  }
  if constexpr (V::kParts > 1) {
    using L = LanesOfPart<V::kPartLanes>;
    TK_EACH_PART(
        p, V, if constexpr (p > 0) {
          V earlier = v;
          earlier.part[p] = L::last(v.part[p - 1]);
          v.part[p] = f(earlier, v).part[p];
        });
  }
  return v;
}

// Whether least < |x| < most, in all lanes.
template <class T, int W>
TK_FN bool all_within(Vec<T, W> x, double least, double most) {
  const Vec<T, W> size = abs(x);
  return mask_all(lt(like(x, T(least)), size) & lt(size, like(x, T(most))));
}
}  // namespace impl

// The prefixes; `before`, what stands before the vector, is moved behind it.
template <class T, int W, class F>
TK_FN Vec<T, W> scan(Vec<T, 1>& before, Vec<T, W> v, F f) {
  const Vec<T, W> prefixes = f(broadcast<W>(get(before, 0)), impl::scan_lanes(v, f));
  before = broadcast<1>(get(prefixes, W - 1));
  return prefixes;
}

// The same for the least or the greatest, which a vector rarely changes.
template <class T, int W, class F>
TK_FN Vec<T, W> scan_extreme(Vec<T, 1>& before, Vec<T, W> v, F f) {
  const Vec<T, W> old = broadcast<W>(get(before, 0));
  if (mask_all(eq(f(old, v), old))) return old;
  return scan(before, v, f);
}

// The same one element after the other, as rounding in that order asks.
template <class T, int W, class F>
TK_FN Vec<T, W> scan_in_order(Vec<T, 1>& before, Vec<T, W> v, F f) {
  Lanes<T, W> lanes = to_lanes(v);
#pragma GCC unroll 4
  for (int i = 0; i < W; ++i) {
    before = f(before, broadcast<1>(lanes.at[i]));
    lanes.at[i] = get(before, 0);
  }
  return from_lanes<W>(lanes);
}

// Sums and products of doubles: one after the other where another order may overflow, or round what
// it should not to 0.
template <int W>
TK_FN Vec<double, W> scan_sums(Vec<double, 1>& before, Vec<double, W> v) {
  const auto f = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
  const Vec<double, 1> old = before;
  const Vec<double, W> sums = scan(before, v, f);
  if (mask_all(lt(abs(sums), like(sums, infinity<double>())))) return sums;
  before = old;
  return scan_in_order(before, v, f);
}
template <int W>
TK_FN Vec<double, W> scan_products(Vec<double, 1>& before, Vec<double, W> v) {
  const auto f = [](auto a, auto b) __attribute__((always_inline)) { return a * b; };
  const Vec<double, W> alone = impl::scan_lanes(v, f), old = broadcast<W>(get(before, 0));
  const Vec<double, W> products = old * alone;
  // The product of any neighbours is a quotient of two of these.
  const bool moderate = impl::all_within(alone, 1e-140, 1e140);
  const double first = get(before, 0);
  if (moderate && (first == 0 || first - first != 0 || impl::all_within(products, 1e-290, 1e290))) {
    before = broadcast<1>(get(products, W - 1));
    return products;
  }
  return scan_in_order(before, v, f);
}

}  // namespace tk

#endif  // TENSORD_CPU_SCAN_H_
