// SPDX-License-Identifier: Apache-2.0
// Numbers that must lie in [0, 1], predictions and targets of a loss: another one, or NaN, is
// reported to the runtime, which fails the call.
#ifndef TENSORD_CPU_PROBABILITY_H_
#define TENSORD_CPU_PROBABILITY_H_

#include "arith.h"
#include "fault.h"

namespace tk {

namespace impl {
template <class T, int W>
TK_FN Mask<W> is_no_probability(Vec<T, W> p) {
  return ~(ge(p, like(p, T(0))) & le(p, like(p, T(1))));
}
}  // namespace impl

// The number itself.
template <class T, int W>
TK_FN Vec<T, W> checked_probability(const TensordKernelArgs* args, Vec<T, W> p) {
  report_lanes(args, TENSORD_FAULT_PROBABILITY, impl::is_no_probability(p));
  return p;
}
// The same; only lanes that are on are reported.
template <class T, int W>
TK_FN Vec<T, W> checked_probability(const TensordKernelArgs* args, Vec<T, W> p, Mask<W> on) {
  report_lanes(args, TENSORD_FAULT_PROBABILITY, impl::is_no_probability(p) & on);
  return p;
}

template <class T, int W>
TK_FN Vec<T, W> checked_target(const TensordKernelArgs* args, Vec<T, W> p) {
  report_lanes(args, TENSORD_FAULT_TARGET, impl::is_no_probability(p));
  return p;
}
template <class T, int W>
TK_FN Vec<T, W> checked_target(const TensordKernelArgs* args, Vec<T, W> p, Mask<W> on) {
  report_lanes(args, TENSORD_FAULT_TARGET, impl::is_no_probability(p) & on);
  return p;
}

}  // namespace tk

#endif  // TENSORD_CPU_PROBABILITY_H_
