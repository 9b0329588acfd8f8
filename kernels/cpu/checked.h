// SPDX-License-Identifier: Apache-2.0
// Numbers that eager refuses: one that is not what it must be is reported to the runtime, which
// fails the call. What is computed of it all the same has some value.
#ifndef TENSORD_CPU_CHECKED_H_
#define TENSORD_CPU_CHECKED_H_

#include "arith.h"
#include "fault.h"

namespace tk {

namespace impl {
template <class T, int W>
TK_FN Mask<W> is_zero(Vec<T, W> x) {
  return eq(x, like(x, T(0)));
}
// Of NaN as well.
template <class T, int W>
TK_FN Mask<W> is_no_probability(Vec<T, W> p) {
  return ~(ge(p, like(p, T(0))) & le(p, like(p, T(1))));
}
template <class T, int W>
TK_FN Mask<W> is_no_deviation(Vec<T, W> x) {
  return ~ge(x, like(x, T(0)));
}
}  // namespace impl

// name(args, x) and name(args, x, on) give x; `on`: only lanes that are on are reported.
#define TK_CHECKED(name, is_bad, kind)                                           \
  template <class T, int W>                                                      \
  TK_FN Vec<T, W> name(const TensordKernelArgs* args, Vec<T, W> x) {             \
    report_lanes(args, kind, impl::is_bad(x));                                   \
    return x;                                                                    \
  }                                                                              \
  template <class T, int W>                                                      \
  TK_FN Vec<T, W> name(const TensordKernelArgs* args, Vec<T, W> x, Mask<W> on) { \
    report_lanes(args, kind, impl::is_bad(x) & on);                              \
    return x;                                                                    \
  }
TK_CHECKED(checked_divisor, is_zero, TENSORD_FAULT_DIVISION)
TK_CHECKED(checked_probability, is_no_probability, TENSORD_FAULT_PROBABILITY)
TK_CHECKED(checked_target, is_no_probability, TENSORD_FAULT_TARGET)
TK_CHECKED(checked_drawn_probability, is_no_probability, TENSORD_FAULT_DRAWN_PROBABILITY)
TK_CHECKED(checked_deviation, is_no_deviation, TENSORD_FAULT_DEVIATION)
#undef TK_CHECKED

}  // namespace tk

#endif  // TENSORD_CPU_CHECKED_H_
