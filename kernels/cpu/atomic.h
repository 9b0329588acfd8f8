// SPDX-License-Identifier: Apache-2.0
// Read-modify-write of single elements: sums, which several threads may add to at once, and other
// accumulating scatters.
#ifndef TENSORD_CPU_ATOMIC_H_
#define TENSORD_CPU_ATOMIC_H_

#include "arith.h"
#include "memory.h"

namespace tk {

// *p = f(*p, x) as one indivisible, relaxed step; f takes and gives the compute type.
template <class S, class F>
TK_FN void atomic_update(S* p, Compute<S> x, F f) {
  Bits<S>* bits = bits_of(p);
  Bits<S> old = __atomic_load_n(bits, __ATOMIC_RELAXED), next;
  do {
    next = encode<S>(broadcast<1>(f(get(decode<S>(Vec<Bits<S>, 1>{{old}}), 0), x))).part[0];
  } while (
      !__atomic_compare_exchange_n(bits, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
template <class S>
TK_FN void atomic_add(S* p, Compute<S> x) {
  if constexpr (kSame<S, bool>) {
    atomic_update(p, x, [](bool a, bool b) { return a || b; });
  } else if constexpr (kIsFloat<Compute<S>>) {
    atomic_update(p, x, [](auto a, auto b) { return a + b; });
  } else {
    __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
  }
}
// *p = f(*p, x), where nobody else writes *p: what schedules make of other scatters
// (schedule/nest.h).
template <class S, class F>
TK_FN void update(S* p, Compute<S> x, F f) {
  const Vec<Compute<S>, 1> old = load<S, 1>(p);
  store<S, 1>(p, f(old, broadcast<1>(x)));
}
// base[index[i]] = f(base[index[i]], v[i]) where on, in the order of lanes.
#define TK_SCATTER(name, ...)                                                         \
  template <class S, int W>                                                           \
  TK_FN void name(S* base, Vec<int64_t, W> index, Vec<Compute<S>, W> v, Mask<W> on) { \
    const unsigned bits = mask_bits(on);                                              \
    const Lanes<int64_t, W> at = to_lanes(index);                                     \
    const Lanes<Compute<S>, W> x = to_lanes(v);                                       \
    _Pragma("GCC unroll 1") for (int i = 0; i < W; ++i) if (bits >> i & 1) {          \
      S* const p = base + at.at[i];                                                   \
      __VA_ARGS__;                                                                    \
    }                                                                                 \
  }
TK_SCATTER(scatter_add, atomic_add(p, x.at[i]))
TK_SCATTER(scatter_mul, update(p, x.at[i], [](auto a, auto b) { return mul(a, b); }))
TK_SCATTER(scatter_min, update(p, x.at[i], [](auto a, auto b) { return minimum(a, b); }))
TK_SCATTER(scatter_max, update(p, x.at[i], [](auto a, auto b) { return maximum(a, b); }))
#undef TK_SCATTER

}  // namespace tk

#endif  // TENSORD_CPU_ATOMIC_H_
