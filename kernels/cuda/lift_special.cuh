// SPDX-License-Identifier: Apache-2.0
// The special functions of vectors, lane by lane.
#ifndef TENSORD_CUDA_LIFT_SPECIAL_CUH_
#define TENSORD_CUDA_LIFT_SPECIAL_CUH_

#include "tensord/cuda/vec.cuh"
#include "tensord/special/special.h"

namespace tk {

#define TK_LIFT_SPECIAL1(name)     \
  namespace scalar {               \
  template <class T>               \
  TK_FN T name(T x) {              \
    return T(tk_special::name(x)); \
  }                                \
  }                                \
  TK_LIFT1(name)
#define TK_LIFT_SPECIAL2(name)        \
  namespace scalar {                  \
  template <class T>                  \
  TK_FN T name(T x, T y) {            \
    return T(tk_special::name(x, y)); \
  }                                   \
  }                                   \
  TK_LIFT2(name)
TK_SPECIAL_FUNCTIONS(TK_LIFT_SPECIAL1, TK_LIFT_SPECIAL2)
#undef TK_LIFT_SPECIAL1
#undef TK_LIFT_SPECIAL2

}  // namespace tk

#endif  // TENSORD_CUDA_LIFT_SPECIAL_CUH_
