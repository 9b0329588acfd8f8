// SPDX-License-Identifier: Apache-2.0
// Numbers that eager refuses: one that is not what it must be, or NaN, fails a device assertion.
#ifndef TENSORD_CUDA_CHECKED_CUH_
#define TENSORD_CUDA_CHECKED_CUH_

#include "tensord/cuda/ptx.cuh"
#include "tensord/cuda/vec.cuh"

namespace tk {

template <class T, int W>
TK_FN Vec<T, W> checked_probability(Vec<T, W> p) {
  bool bad = false;
  TK_EACH(i) bad |= !(p.at[i] >= T(0) && p.at[i] <= T(1));
  if (bad) [[unlikely]]
    ptx::fail_probability();
  return p;
}
// Only lanes that are on hold a number.
template <class T, int W>
TK_FN Vec<T, W> checked_probability(Vec<T, W> p, Mask<W> on) {
  bool bad = false;
  TK_EACH(i) bad |= on.at[i] && !(p.at[i] >= T(0) && p.at[i] <= T(1));
  if (bad) [[unlikely]]
    ptx::fail_probability();
  return p;
}

}  // namespace tk

#endif  // TENSORD_CUDA_CHECKED_CUH_
