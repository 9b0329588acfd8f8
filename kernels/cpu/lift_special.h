// SPDX-License-Identifier: Apache-2.0
// The special functions of vectors, lane by lane.
#ifndef TENSORD_CPU_LIFT_SPECIAL_H_
#define TENSORD_CPU_LIFT_SPECIAL_H_

#include "tensord/special/special.h"
#include "vec.h"

namespace tk {

#define TK_LIFT_SPECIAL1(name)                                               \
  template <class T, int W>                                                  \
  TK_FN Vec<T, W> name(Vec<T, W> a) {                                        \
    return map_lanes<T>([](T x) -> T { return T(tk_special::name(x)); }, a); \
  }
#define TK_LIFT_SPECIAL2(name)                                                          \
  template <class T, int W>                                                             \
  TK_FN Vec<T, W> name(Vec<T, W> a, Vec<T, W> b) {                                      \
    return map_lanes<T>([](T x, T y) -> T { return T(tk_special::name(x, y)); }, a, b); \
  }
TK_SPECIAL_FUNCTIONS(TK_LIFT_SPECIAL1, TK_LIFT_SPECIAL2)
#undef TK_LIFT_SPECIAL1
#undef TK_LIFT_SPECIAL2

}  // namespace tk

#endif  // TENSORD_CPU_LIFT_SPECIAL_H_
