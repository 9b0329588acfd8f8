// SPDX-License-Identifier: Apache-2.0
// Indices that come from data: one that is out of range fails a device assertion, as in eager.
// Behind it an index needs no bounds.
#ifndef TENSORD_CUDA_INDEX_CUH_
#define TENSORD_CUDA_INDEX_CUH_

#include "tensord/cuda/ptx.cuh"
#include "tensord/cuda/vec.cuh"

namespace tk {

template <int W>
TK_FN Vec<int64_t, W> checked_index(Vec<int64_t, W> index, int64_t size) {
  bool bad = false;
  TK_EACH(i) bad |= uint64_t(index.at[i]) >= uint64_t(size);
  if (bad) [[unlikely]]
    ptx::fail_index();
  return index;
}
// Only lanes that are on are in range.
template <int W>
TK_FN Vec<int64_t, W> checked_index(Vec<int64_t, W> index, int64_t size, Mask<W> on) {
  bool bad = false;
  TK_EACH(i) bad |= on.at[i] && uint64_t(index.at[i]) >= uint64_t(size);
  if (bad) [[unlikely]]
    ptx::fail_index();
  return index;
}

// Negative indices count from the end.
template <int W>
TK_FN Vec<int64_t, W> wrapped_index(Vec<int64_t, W> index, int64_t size) {
  TK_EACH(i) index.at[i] += index.at[i] < 0 ? size : 0;
  return checked_index(index, size);
}
template <int W>
TK_FN Vec<int64_t, W> wrapped_index(Vec<int64_t, W> index, int64_t size, Mask<W> on) {
  TK_EACH(i) index.at[i] += index.at[i] < 0 ? size : 0;
  return checked_index(index, size, on);
}

// Where the kernel must not end before its products do: of an index that is out of range it is
// noted that one is `outside`, and it is 0.
template <int W>
TK_FN Vec<int64_t, W> noted_index(Vec<int64_t, W> index, int64_t size, bool& outside) {
  TK_EACH(i) {
    const bool bad = uint64_t(index.at[i]) >= uint64_t(size);
    outside |= bad;
    index.at[i] = bad ? 0 : index.at[i];
  }
  return index;
}
template <int W>
TK_FN Vec<int64_t, W> noted_index(Vec<int64_t, W> index, int64_t size, bool& outside, Mask<W> on) {
  TK_EACH(i) {
    const bool bad = uint64_t(index.at[i]) >= uint64_t(size);
    outside |= on.at[i] && bad;
    index.at[i] = bad ? 0 : index.at[i];
  }
  return index;
}
template <int W>
TK_FN Vec<int64_t, W> noted_wrapped_index(Vec<int64_t, W> index, int64_t size, bool& outside) {
  TK_EACH(i) index.at[i] += index.at[i] < 0 ? size : 0;
  return noted_index(index, size, outside);
}
template <int W>
TK_FN Vec<int64_t, W> noted_wrapped_index(Vec<int64_t, W> index, int64_t size, bool& outside,
                                          Mask<W> on) {
  TK_EACH(i) index.at[i] += index.at[i] < 0 ? size : 0;
  return noted_index(index, size, outside, on);
}
// At the kernel's end. No assertion: a kernel that calls a function anywhere has products in the
// foreground only.
TK_FN void fail_if(bool outside) {
  if (outside) [[unlikely]]
    ptx::trap();
}

}  // namespace tk

#endif  // TENSORD_CUDA_INDEX_CUH_
