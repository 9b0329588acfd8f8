// SPDX-License-Identifier: Apache-2.0
// Divisors of integers: one of 0 is reported to the runtime, which fails the call. What is divided
// by it all the same has some value (arith.h).
#ifndef TENSORD_CPU_DIVISOR_H_
#define TENSORD_CPU_DIVISOR_H_

#include "arith.h"
#include "fault.h"

namespace tk {

// The divisor itself.
template <class T, int W>
TK_FN Vec<T, W> checked_divisor(const TensordKernelArgs* args, Vec<T, W> divisor) {
  report_lanes(args, TENSORD_FAULT_DIVISION, eq(divisor, like(divisor, T(0))));
  return divisor;
}
// The same; only lanes that are on are reported.
template <class T, int W>
TK_FN Vec<T, W> checked_divisor(const TensordKernelArgs* args, Vec<T, W> divisor, Mask<W> on) {
  report_lanes(args, TENSORD_FAULT_DIVISION, eq(divisor, like(divisor, T(0))) & on);
  return divisor;
}

}  // namespace tk

#endif  // TENSORD_CPU_DIVISOR_H_
