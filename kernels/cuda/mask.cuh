// SPDX-License-Identifier: Apache-2.0
// Comparisons, selection, and the logic of masks.
#ifndef TENSORD_CUDA_MASK_CUH_
#define TENSORD_CUDA_MASK_CUH_

#include "tensord/cuda/ptx.cuh"
#include "tensord/cuda/vec.cuh"

namespace tk {

// A bit per lane, lane 0 lowest.
template <int W>
TK_FN unsigned mask_bits(Mask<W> m) {
  unsigned bits = 0;
  TK_EACH(i) bits |= unsigned(m.at[i]) << i;
  return bits;
}
template <int W>
TK_FN bool mask_any(Mask<W> m) {
  bool any = false;
  TK_EACH(i) any |= m.at[i];
  return any;
}
template <int W>
TK_FN bool mask_all(Mask<W> m) {
  bool all = true;
  TK_EACH(i) all &= m.at[i];
  return all;
}
// The first n lanes on.
template <int W, class N>
TK_FN Mask<W> mask_first(N n) {
  Mask<W> m;
  TK_EACH(i) m.at[i] = i < n;
  return m;
}

// On where the lane's number times `step` is `distance`.
template <int W>
TK_FN Mask<W> equal_lane(int64_t distance, int step) {
  const int d = distance >= 0 && distance < int64_t(W) * step ? int(distance) : -1;
  Mask<W> m;
  TK_EACH(i) m.at[i] = d == i * step;
  return m;
}

// x, less `amount` in the lane whose number times `step` is `distance`, if there is one. Hardly any
// vector has it: the others pay for one comparison.
template <class T, int W>
TK_FN Vec<T, W> sub_at(Vec<T, W> x, int64_t distance, int step, Vec<T, 1> amount) {
  if (uint64_t(distance) < uint64_t(W * step)) {
    const int here = ptx::behind_branch(int(distance));
    TK_EACH(i) if (here == i * step) x.at[i] = x.at[i] - amount.at[0];
  }
  return x;
}

// --- comparisons: false where an operand is NaN, but for ne

#define TK_COMPARE(name, op)                     \
  template <class T, int W>                      \
  TK_FN Mask<W> name(Vec<T, W> a, Vec<T, W> b) { \
    Mask<W> m;                                   \
    TK_EACH(i) m.at[i] = a.at[i] op b.at[i];     \
    return m;                                    \
  }
TK_COMPARE(eq, ==)
TK_COMPARE(ne, !=)
TK_COMPARE(lt, <)
TK_COMPARE(le, <=)
TK_COMPARE(gt, >)
TK_COMPARE(ge, >=)
#undef TK_COMPARE

// --- selection

// Per lane: on ? a : b.
template <class T, int W>
TK_FN Vec<T, W> where(Mask<W> on, Vec<T, W> a, Vec<T, W> b) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = on.at[i] ? a.at[i] : b.at[i];
  return r;
}
// x where on, else 0.
template <class T, int W>
TK_FN Vec<T, W> where_or_zero(Mask<W> on, Vec<T, W> x) {
  return where(on, x, broadcast<W>(T(0)));
}

}  // namespace tk

#endif  // TENSORD_CUDA_MASK_CUH_
