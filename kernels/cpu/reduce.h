// SPDX-License-Identifier: Apache-2.0
// Reductions across the lanes of a vector, and the running states of the reductions that are more
// than one number: arg-extremes, Welford's moments, online softmax. A state is filled per lane with
// `add`, merged with `combine` (also between threads), and its lanes are merged with `reduce`.
// The order is fixed: the result depends on W and on how the elements were dealt to lanes, on
// nothing else.
#ifndef TENSORD_CPU_REDUCE_H_
#define TENSORD_CPU_REDUCE_H_

#include "math.h"

namespace tk {

// --- butterflies

namespace impl {
template <int K, class P, int... I>
TK_FN P swap_lanes(P v) {
  return __builtin_shufflevector(v, v, (I ^ K)...);
}
template <class P, int K, int N>
struct Swapper;
template <class P, int K>
struct Swapper<P, K, 2> {
  static inline P run(P v) { return swap_lanes<K, P, 0, 1>(v); }
};
template <class P, int K>
struct Swapper<P, K, 4> {
  static inline P run(P v) { return swap_lanes<K, P, 0, 1, 2, 3>(v); }
};
template <class P, int K>
struct Swapper<P, K, 8> {
  static inline P run(P v) { return swap_lanes<K, P, 0, 1, 2, 3, 4, 5, 6, 7>(v); }
};
template <class P, int K>
struct Swapper<P, K, 16> {
  static inline P run(P v) {
    return swap_lanes<K, P, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(v);
  }
};
}  // namespace impl

// Lane i of the result is lane i^K of v.
template <int K, class T, int W>
TK_FN Vec<T, W> butterfly(Vec<T, W> v) {
  using V = Vec<T, W>;
  V r;
  if constexpr (K >= V::kPartLanes) {
    TK_EACH_PART(p, V, r.part[p] = v.part[p ^ (K / V::kPartLanes)];);
  } else {
    TK_EACH_PART(p, V,
                 r.part[p] = impl::Swapper<typename V::Part, K, V::kPartLanes>::run(v.part[p]););
  }
  return r;
}

// Merges all lanes of a state or vector by f(state, state); every lane of the result has the total.
template <int W, class S, class F>
TK_FN S reduce_lanes(S s, F f) {
  if constexpr (W > 8) s = f(s, butterfly<8>(s));
  if constexpr (W > 4) s = f(s, butterfly<4>(s));
  if constexpr (W > 2) s = f(s, butterfly<2>(s));
  if constexpr (W > 1) s = f(s, butterfly<1>(s));
  return s;
}

// --- one number

#define TK_REDUCE(name, combine)                                                     \
  template <class T, int W>                                                          \
  TK_FN T name(Vec<T, W> v) {                                                        \
    return get(reduce_lanes<W>(                                                      \
                   v, [](Vec<T, W> a, Vec<T, W> b)                                   \
                          __attribute__((always_inline)) { return combine(a, b); }), \
               0);                                                                   \
  }
TK_REDUCE(reduce_sum, add)
TK_REDUCE(reduce_prod, mul)
TK_REDUCE(reduce_min, minimum)  // NaN wins
TK_REDUCE(reduce_max, maximum)
TK_REDUCE(reduce_xor, bitwise_xor)
#undef TK_REDUCE
template <int W>
TK_FN bool reduce_any(Mask<W> m) {
  return mask_any(m);
}
template <int W>
TK_FN bool reduce_all(Mask<W> m) {
  return mask_all(m);
}
template <int W>
TK_FN bool reduce_max(Mask<W> m) {
  return mask_any(m);
}
template <int W>
TK_FN bool reduce_min(Mask<W> m) {
  return mask_all(m);
}

// --- arg-extremes: the first index of the extreme wins; a NaN is the extreme

template <class T, int W>
struct ArgVec {
  Vec<T, W> value;
  Vec<int64_t, W> index;
};
template <class T, int W>
TK_FN ArgVec<T, W> where(Mask<W> on, ArgVec<T, W> a, ArgVec<T, W> b) {
  return {where(on, a.value, b.value), where(on, a.index, b.index)};
}
template <int K, class T, int W>
TK_FN ArgVec<T, W> butterfly(ArgVec<T, W> s) {
  return {butterfly<K>(s.value), butterfly<K>(s.index)};
}
// The identities: no element has this index.
template <class T, int W>
TK_FN ArgVec<T, W> argmax_init() {
  return {broadcast<W>(lowest<T>()), broadcast<W>(highest<int64_t>())};
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_init() {
  return {broadcast<W>(highest<T>()), broadcast<W>(highest<int64_t>())};
}
namespace impl {
// Keeps b where it is strictly `better`, a NaN against a number, or equal (or both NaN) and
// earlier.
template <class T, int W>
TK_FN ArgVec<T, W> arg_combine(ArgVec<T, W> a, ArgVec<T, W> b, Mask<W> better) {
  const Mask<W> a_nan = isnan(a.value), b_nan = isnan(b.value);
  const Mask<W> equal = eq(a.value, b.value) | (a_nan & b_nan);
  return where((better & ~a_nan) | (b_nan & ~a_nan) | (equal & lt(b.index, a.index)), b, a);
}
}  // namespace impl
template <class T, int W>
TK_FN ArgVec<T, W> argmax_combine(ArgVec<T, W> a, ArgVec<T, W> b) {
  return impl::arg_combine(a, b, gt(b.value, a.value));
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_combine(ArgVec<T, W> a, ArgVec<T, W> b) {
  return impl::arg_combine(a, b, lt(b.value, a.value));
}
// W=1 state with the total, to be read by get(s.value, 0) and get(s.index, 0).
template <class T, int W>
TK_FN ArgVec<T, 1> argmax_reduce(ArgVec<T, W> s) {
  s = reduce_lanes<W>(s, [](auto a, auto b) { return argmax_combine(a, b); });
  return {{get(s.value, 0)}, {get(s.index, 0)}};
}
template <class T, int W>
TK_FN ArgVec<T, 1> argmin_reduce(ArgVec<T, W> s) {
  s = reduce_lanes<W>(s, [](auto a, auto b) { return argmin_combine(a, b); });
  return {{get(s.value, 0)}, {get(s.index, 0)}};
}

// --- Welford's running mean and sum of squared deviations (Welford 1962; Chan et al. 1979)
// -----------

template <class T, int W>
struct Welford {
  Vec<T, W> mean, m2, weight;  // the variance is m2 / weight
};
template <class T, int W>
TK_FN Welford<T, W> welford_init() {
  const Vec<T, W> zero = broadcast<W>(T(0));
  return {zero, zero, zero};
}
template <class T, int W>
TK_FN Welford<T, W> where(Mask<W> on, Welford<T, W> a, Welford<T, W> b) {
  return {where(on, a.mean, b.mean), where(on, a.m2, b.m2), where(on, a.weight, b.weight)};
}
template <int K, class T, int W>
TK_FN Welford<T, W> butterfly(Welford<T, W> s) {
  return {butterfly<K>(s.mean), butterfly<K>(s.m2), butterfly<K>(s.weight)};
}
// `inverse` is 1 / (weight + 1), which is the same in all lanes: a loop computes it once per step
// as a scalar, off the critical path.
template <class T, int W>
TK_FN Welford<T, W> welford_add(Welford<T, W> s, Vec<T, W> x, Vec<T, W> inverse) {
  const Vec<T, W> delta = x - s.mean, mean = fma(delta, inverse, s.mean);
  return {mean, fma(delta, x - mean, s.m2), s.weight + like(x, T(1))};
}
template <class T, int W>
TK_FN Welford<T, W> welford_add(Welford<T, W> s, Vec<T, W> x) {
  return welford_add(s, x, reciprocal(s.weight + like(x, T(1))));
}
template <class T, int W>
TK_FN Welford<T, W> welford_add_masked(Welford<T, W> s, Vec<T, W> x, Mask<W> on) {
  return where(on, welford_add(s, x), s);
}
template <class T, int W>
TK_FN Welford<T, W> welford_combine(Welford<T, W> a, Welford<T, W> b) {
  const Vec<T, W> weight = a.weight + b.weight, delta = b.mean - a.mean;
  const Vec<T, W> zero = like(weight, T(0));
  const Vec<T, W> share = where(eq(weight, zero), zero, b.weight / weight);
  return {fma(delta, share, a.mean), a.m2 + fma(delta * (a.weight * share), delta, b.m2), weight};
}
template <class T, int W>
TK_FN Welford<T, 1> welford_reduce(Welford<T, W> s) {
  s = reduce_lanes<W>(s, [](auto a, auto b) { return welford_combine(a, b); });
  return {{get(s.mean, 0)}, {get(s.m2, 0)}, {get(s.weight, 0)}};
}

// --- online softmax: the maximum and the sum of exp(x - maximum) (Milakov and Gimelshein 2018)
// --------

template <int W>
struct OnlineSoftmax {
  Vec<float, W> max, sum;
};
template <int W>
TK_FN OnlineSoftmax<W> softmax_init() {
  return {broadcast<W>(-infinity<float>()), broadcast<W>(0.0f)};
}
template <int W>
TK_FN OnlineSoftmax<W> where(Mask<W> on, OnlineSoftmax<W> a, OnlineSoftmax<W> b) {
  return {where(on, a.max, b.max), where(on, a.sum, b.sum)};
}
template <int K, int W>
TK_FN OnlineSoftmax<W> butterfly(OnlineSoftmax<W> s) {
  return {butterfly<K>(s.max), butterfly<K>(s.sum)};
}
namespace impl {
// exp(a - b), and 1 where they are equal: infinities too.
template <int W>
TK_FN Vec<float, W> exp_difference(Vec<float, W> a, Vec<float, W> b) {
  return exp(where(eq(a, b), like(a, 0.0f), a - b));
}
}  // namespace impl
// One exp per element: whichever of x and the old maximum is smaller is scaled to the other.
template <int W>
TK_FN OnlineSoftmax<W> softmax_add(OnlineSoftmax<W> s, Vec<float, W> x) {
  const Mask<W> rises = gt(x, s.max);
  const Vec<float, W> max = maximum(s.max, x), one = like(x, 1.0f);
  const Vec<float, W> e = impl::exp_difference(where(rises, s.max, x), max);
  return {max, where(rises, fma(s.sum, e, one), s.sum + e)};
}
template <int W>
TK_FN OnlineSoftmax<W> softmax_add_masked(OnlineSoftmax<W> s, Vec<float, W> x, Mask<W> on) {
  return where(on, softmax_add(s, x), s);
}
template <int W>
TK_FN OnlineSoftmax<W> softmax_combine(OnlineSoftmax<W> a, OnlineSoftmax<W> b) {
  const Vec<float, W> max = maximum(a.max, b.max);
  return {max,
          fma(a.sum, impl::exp_difference(a.max, max), b.sum * impl::exp_difference(b.max, max))};
}
template <int W>
TK_FN OnlineSoftmax<1> softmax_reduce(OnlineSoftmax<W> s) {
  const float max = reduce_max(s.max);
  const Vec<float, W> e = impl::exp_difference(s.max, broadcast<W>(max));
  return {{max}, {reduce_sum(s.sum * e)}};
}

}  // namespace tk

#endif  // TENSORD_CPU_REDUCE_H_
