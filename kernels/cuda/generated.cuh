// SPDX-License-Identifier: Apache-2.0
// What generated kernels use beyond the vector library: running states by the names that the code
// generator makes of a reduction's name.
#ifndef TENSORD_CUDA_GENERATED_CUH_
#define TENSORD_CUDA_GENERATED_CUH_

#include "tensord/cuda/random.cuh"
#include "tensord/cuda/reduce.cuh"

namespace tk {

// Every kernel begins with it. The next kernel of the stream may take the room that this one's last
// blocks leave, and waits there in its turn; nothing of memory is touched before all kernels ahead
// have ended and what they wrote can be seen. Source: CUDA C++ Programming Guide, programmatic
// dependent launch. Before sm_90 the stream alone orders kernels.
TK_FN void wait_for_launches() {
#if __CUDA_ARCH__ >= 900
  ptx::let_next_kernel_begin();
  ptx::wait_for_kernels_before();
#endif
}

template <class T, int W>
TK_FN Welford<T, W> welford_start() {
  return welford_init<T, W>();
}
template <class T, int W>
TK_FN OnlineSoftmax<W> softmax_start() {
  return softmax_init<W>();
}
template <class T, int W>
TK_FN ArgVec<T, W> argmax_start() {
  return argmax_init<T, W>();
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_start() {
  return argmin_init<T, W>();
}
// Adds x, whose lane i has index first + i.
template <class T, int W>
TK_FN ArgVec<T, W> argmax_add(ArgVec<T, W> s, Vec<T, W> x, int64_t first) {
  return argmax_combine(s, ArgVec<T, W>{x, iota<int64_t, W>(first)});
}
template <class T, int W>
TK_FN ArgVec<T, W> argmin_add(ArgVec<T, W> s, Vec<T, W> x, int64_t first) {
  return argmin_combine(s, ArgVec<T, W>{x, iota<int64_t, W>(first)});
}

// Of parts that follow each other, that to which a block belongs: end(i) is the first block behind
// part i.
template <class End>
TK_FN int part_of(int parts, int block, End end) {
  int first = 0, last = parts - 1;
  while (first < last) {
    const int middle = (first + last) / 2;
    if (block < end(middle))
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

}  // namespace tk

#endif  // TENSORD_CUDA_GENERATED_CUH_
