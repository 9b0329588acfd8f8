// SPDX-License-Identifier: Apache-2.0
// What generated kernels use beyond the vector library: index arithmetic, scalars made vectors,
// running states with a masked last step.
#ifndef TENSORD_CPU_GENERATED_H_
#define TENSORD_CPU_GENERATED_H_

#include "random.h"
#include "reduce.h"

namespace tk {

// --- index arithmetic: floor semantics for any sign

TK_FN constexpr int64_t floor_div_index(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
TK_FN constexpr int64_t mod_index(int64_t a, int64_t b) { return a - floor_div_index(a, b) * b; }
TK_FN constexpr int64_t min_index(int64_t a, int64_t b) { return a < b ? a : b; }
TK_FN constexpr int64_t max_index(int64_t a, int64_t b) { return a > b ? a : b; }

// --- values

// A scalar (one lane) in every lane.
template <int W, class T>
TK_FN Vec<T, W> splat(Vec<T, 1> v) {
  return broadcast<W>(get(v, 0));
}

// What a store to S and a load from it would leave of v.
template <class S, int W>
TK_FN Vec<Compute<S>, W> round_to(Vec<Compute<S>, W> v) {
  return decode<S>(encode<S>(v));
}

// --- running states

// The state after the first `left` lanes of x.
template <class T, int W>
TK_FN Welford<T, W> welford_add_tail(Welford<T, W> s, Vec<T, W> x, int64_t left) {
  return where(mask_first<W>(left), welford_add(s, x), s);
}

template <class T, int W>
TK_FN Welford<T, W> welford_start() {
  return welford_init<T, W>();
}
template <class T, int W>
TK_FN OnlineSoftmax<W> softmax_start() {
  return softmax_init<W>();
}
template <int W>
TK_FN OnlineSoftmax<W> softmax_add_tail(OnlineSoftmax<W> s, Vec<float, W> x, int64_t left) {
  return where(mask_first<W>(left), softmax_add(s, x), s);
}

template <class T, int W>
TK_FN ArgVec<T, W> argmax_start() {
  return argmax_init<T, W>();
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_start() {
  return argmin_init<T, W>();
}
// Adds x, whose lane i has index first + i.
template <class T, int W>
TK_FN ArgVec<T, W> argmax_add(ArgVec<T, W> s, Vec<T, W> x, int64_t first) {
  return argmax_combine(s, ArgVec<T, W>{x, iota<int64_t, W>(first)});
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_add(ArgVec<T, W> s, Vec<T, W> x, int64_t first) {
  return argmin_combine(s, ArgVec<T, W>{x, iota<int64_t, W>(first)});
}
template <class T, int W>
TK_FN ArgVec<T, W> argmax_add_tail(ArgVec<T, W> s, Vec<T, W> x, int64_t first, int64_t left) {
  return where(mask_first<W>(left), argmax_add(s, x, first), s);
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_add_tail(ArgVec<T, W> s, Vec<T, W> x, int64_t first, int64_t left) {
  return where(mask_first<W>(left), argmin_add(s, x, first), s);
}

}  // namespace tk

#endif  // TENSORD_CPU_GENERATED_H_
