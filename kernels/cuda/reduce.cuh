// SPDX-License-Identifier: Apache-2.0
// Reductions across the lanes of one thread, and the running states of the reductions that are more
// than one number: arg-extremes, Welford's moments, online softmax. A state is filled per lane with
// `add`, merged with `combine`, and its lanes are merged with `reduce`; group.cuh merges threads.
// The order is fixed: the result depends on W and on how the elements were dealt to lanes, on
// nothing else.
#ifndef TENSORD_CUDA_REDUCE_CUH_
#define TENSORD_CUDA_REDUCE_CUH_

#include "tensord/cuda/math.cuh"

namespace tk {

// --- lanes

template <class T, int W>
TK_FN Vec<T, W / 2> low_half(Vec<T, W> v) {
  Vec<T, W / 2> r;
#pragma unroll
  for (int i = 0; i < W / 2; ++i) r.at[i] = v.at[i];
  return r;
}
template <class T, int W>
TK_FN Vec<T, W / 2> high_half(Vec<T, W> v) {
  Vec<T, W / 2> r;
#pragma unroll
  for (int i = 0; i < W / 2; ++i) r.at[i] = v.at[i + W / 2];
  return r;
}
// Merges all lanes of a vector or state by f(half, half).
template <int W, class S, class F>
TK_FN auto reduce_lanes(S s, F f) {
  if constexpr (W == 1)
    return s;
  else
    return reduce_lanes<W / 2>(f(low_half(s), high_half(s)), f);
}

// --- one number

// As objects, so that they can be handed on; they take vectors and elements.
#define TK_COMBINE(Name, function)                                                    \
  struct Name {                                                                       \
    template <class T, int W>                                                         \
    __device__ __forceinline__ Vec<T, W> operator()(Vec<T, W> a, Vec<T, W> b) const { \
      return function(a, b);                                                          \
    }                                                                                 \
  };
namespace impl {
TK_COMBINE(Add, add)
TK_COMBINE(Mul, mul)
TK_COMBINE(Min, minimum)  // NaN wins
TK_COMBINE(Max, maximum)
TK_COMBINE(Xor, bitwise_xor)
}  // namespace impl
#undef TK_COMBINE

#define TK_REDUCE(name, Combine)                      \
  template <class T, int W>                           \
  TK_FN T name(Vec<T, W> v) {                         \
    return reduce_lanes<W>(v, impl::Combine()).at[0]; \
  }
TK_REDUCE(reduce_sum, Add)
TK_REDUCE(reduce_prod, Mul)
TK_REDUCE(reduce_min, Min)
TK_REDUCE(reduce_max, Max)
TK_REDUCE(reduce_xor, Xor)
#undef TK_REDUCE
template <int W>
TK_FN bool reduce_any(Mask<W> m) {
  return mask_any(m);
}
template <int W>
TK_FN bool reduce_all(Mask<W> m) {
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
template <class T, int W>
TK_FN ArgVec<T, W / 2> low_half(ArgVec<T, W> s) {
  return {low_half(s.value), low_half(s.index)};
}
template <class T, int W>
TK_FN ArgVec<T, W / 2> high_half(ArgVec<T, W> s) {
  return {high_half(s.value), high_half(s.index)};
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
  Mask<W> take;
  TK_EACH(i) {
    const T x = a.value.at[i], y = b.value.at[i];
    const bool x_nan = scalar::isnan(x), y_nan = scalar::isnan(y);
    const bool equal = x == y || (x_nan && y_nan);
    take.at[i] = ((better.at[i] || y_nan) && !x_nan) || (equal && b.index.at[i] < a.index.at[i]);
  }
  return where(take, b, a);
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
namespace impl {
struct ArgMax {
  template <class T, int W>
  __device__ __forceinline__ ArgVec<T, W> operator()(ArgVec<T, W> a, ArgVec<T, W> b) const {
    return argmax_combine(a, b);
  }
};
struct ArgMin {
  template <class T, int W>
  __device__ __forceinline__ ArgVec<T, W> operator()(ArgVec<T, W> a, ArgVec<T, W> b) const {
    return argmin_combine(a, b);
  }
};
}  // namespace impl
// W=1 state with the total.
template <class T, int W>
TK_FN ArgVec<T, 1> argmax_reduce(ArgVec<T, W> s) {
  return reduce_lanes<W>(s, impl::ArgMax());
}
template <class T, int W>
TK_FN ArgVec<T, 1> argmin_reduce(ArgVec<T, W> s) {
  return reduce_lanes<W>(s, impl::ArgMin());
}

// --- Welford's running mean and sum of squared deviations (Welford 1962; Chan et al. 1979)

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
template <class T, int W>
TK_FN Welford<T, W / 2> low_half(Welford<T, W> s) {
  return {low_half(s.mean), low_half(s.m2), low_half(s.weight)};
}
template <class T, int W>
TK_FN Welford<T, W / 2> high_half(Welford<T, W> s) {
  return {high_half(s.mean), high_half(s.m2), high_half(s.weight)};
}
namespace impl {
// 1/x of a weight, to 1 ulp: an exact division is a dozen instructions, and a branch.
template <class T>
TK_FN T inverse_weight(T x) {
  if constexpr (kSame<T, float>)
    return ptx::reciprocal_approx(x);
  else
    return 1 / x;
}
}  // namespace impl
// `inverse` is 1 / (weight + 1).
template <class T, int W>
TK_FN Welford<T, W> welford_add(Welford<T, W> s, Vec<T, W> x, Vec<T, W> inverse) {
  const Vec<T, W> delta = x - s.mean, mean = fma(delta, inverse, s.mean);
  return {mean, fma(delta, x - mean, s.m2), s.weight + like(x, T(1))};
}
// All lanes have the same weight, unless a mask was used: the compiler cannot know it, so lane 0's
// inverse is taken once for all.
template <class T, int W>
TK_FN Welford<T, W> welford_add(Welford<T, W> s, Vec<T, W> x) {
  return welford_add(s, x, broadcast<W>(impl::inverse_weight(s.weight.at[0] + T(1))));
}
template <class T, int W>
TK_FN Welford<T, W> welford_add_masked(Welford<T, W> s, Vec<T, W> x, Mask<W> on) {
  Vec<T, W> inverse;
  TK_EACH(i) inverse.at[i] = impl::inverse_weight(s.weight.at[i] + T(1));
  return where(on, welford_add(s, x, inverse), s);
}
template <class T, int W>
TK_FN Welford<T, W> welford_combine(Welford<T, W> a, Welford<T, W> b) {
  const Vec<T, W> weight = a.weight + b.weight, delta = b.mean - a.mean;
  Vec<T, W> share;
  TK_EACH(i) {
    const T w = weight.at[i];
    share.at[i] = w == T(0) ? T(0) : b.weight.at[i] * impl::inverse_weight(w);
  }
  return {fma(delta, share, a.mean), a.m2 + fma(delta * (a.weight * share), delta, b.m2), weight};
}
namespace impl {
struct CombineWelford {
  template <class T, int W>
  __device__ __forceinline__ Welford<T, W> operator()(Welford<T, W> a, Welford<T, W> b) const {
    return welford_combine(a, b);
  }
};
}  // namespace impl
template <class T, int W>
TK_FN Welford<T, 1> welford_reduce(Welford<T, W> s) {
  return reduce_lanes<W>(s, impl::CombineWelford());
}

// --- online softmax: the maximum and the sum of exp(x - maximum) (Milakov and Gimelshein 2018)

// Of all elements that one thread saw, W at a time: a vector is scaled once, not per lane.
template <int W>
struct OnlineSoftmax {
  Vec<float, 1> max, sum;
};
template <int W>
TK_FN OnlineSoftmax<W> softmax_init() {
  return {{{-infinity<float>()}}, {{0.0f}}};
}
namespace impl {
// What is subtracted from every x: infinity - infinity would be no number.
TK_FN float softmax_shift(float max) { return ::fabsf(max) == infinity<float>() ? 0.0f : max; }
// exp(x - shift): the difference is exact where the result counts, so that the relative error is
// |x - shift| 2^-24 and two units in the last place.
TK_FN float exp_below(float x, float shift) { return ptx::exp2_approx((x - shift) * 1.44269504f); }
// The sum of `s` on the scale of a larger maximum.
template <int W>
TK_FN float softmax_rescaled(OnlineSoftmax<W> s, float shift) {
  return s.sum.at[0] * exp_below(s.max.at[0], shift);
}
}  // namespace impl
template <int W>
TK_FN OnlineSoftmax<W> softmax_add(OnlineSoftmax<W> s, Vec<float, W> x) {
  const float max = ptx::max_nan(s.max.at[0], reduce_max(x)), shift = impl::softmax_shift(max);
  Vec<float, W> e;
  TK_EACH(i) e.at[i] = impl::exp_below(x.at[i], shift);
  return {{{max}}, {{impl::softmax_rescaled(s, shift) + reduce_sum(e)}}};
}
template <int W>
TK_FN OnlineSoftmax<W> softmax_add_masked(OnlineSoftmax<W> s, Vec<float, W> x, Mask<W> on) {
  return softmax_add(s, where(on, x, like(x, -infinity<float>())));
}
template <int W>
TK_FN OnlineSoftmax<W> softmax_combine(OnlineSoftmax<W> a, OnlineSoftmax<W> b) {
  const float max = ptx::max_nan(a.max.at[0], b.max.at[0]), shift = impl::softmax_shift(max);
  return {{{max}}, {{impl::softmax_rescaled(a, shift) + impl::softmax_rescaled(b, shift)}}};
}
template <int W>
TK_FN OnlineSoftmax<1> softmax_reduce(OnlineSoftmax<W> s) {
  return {s.max, s.sum};
}

}  // namespace tk

#endif  // TENSORD_CUDA_REDUCE_CUH_
