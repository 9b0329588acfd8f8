// SPDX-License-Identifier: Apache-2.0
// Numbers that eager refuses: one that is not what it must be, or NaN, fails a device assertion.
#ifndef TENSORD_CUDA_CHECKED_CUH_
#define TENSORD_CUDA_CHECKED_CUH_

#include "tensord/cuda/ptx.cuh"
#include "tensord/cuda/vec.cuh"

namespace tk {

// name(x) and name(x, on) give x; `on`: only lanes that are on hold a number. `is_good`: of
// x.at[i].
#define TK_CHECKED(name, is_good, fail)           \
  template <class T, int W>                       \
  TK_FN Vec<T, W> name(Vec<T, W> x) {             \
    bool bad = false;                             \
    TK_EACH(i) bad |= !(is_good);                 \
    if (bad) [[unlikely]]                         \
      ptx::fail();                                \
    return x;                                     \
  }                                               \
  template <class T, int W>                       \
  TK_FN Vec<T, W> name(Vec<T, W> x, Mask<W> on) { \
    bool bad = false;                             \
    TK_EACH(i) bad |= on.at[i] && !(is_good);     \
    if (bad) [[unlikely]]                         \
      ptx::fail();                                \
    return x;                                     \
  }
TK_CHECKED(checked_probability, x.at[i] >= T(0) && x.at[i] <= T(1), fail_probability)
TK_CHECKED(checked_deviation, x.at[i] >= T(0), fail_deviation)
#undef TK_CHECKED

}  // namespace tk

#endif  // TENSORD_CUDA_CHECKED_CUH_
