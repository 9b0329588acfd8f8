// SPDX-License-Identifier: Apache-2.0
// Square tiles for copies whose fast dimensions differ.
#ifndef TENSORD_CPU_TRANSPOSE_H_
#define TENSORD_CPU_TRANSPOSE_H_

#include "memory.h"

namespace tk {

namespace impl {
// Swaps the off-diagonal B x B blocks of every 2B x 2B block.
template <int B, int N, class R>
TK_FN void transpose_stage(R (&row)[N]) {
  using U = decltype(row[0][0] + 0);
  typedef Bits<U> Index __attribute__((vector_size(sizeof(R))));
  Index low{}, high{};
  for (int i = 0; i < N; ++i) {
    low[i] = i & B ? N + i - B : i;
    high[i] = i & B ? N + i : i + B;
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    if (i & B) continue;
    const R a = row[i], b = row[i + B];
    row[i] = __builtin_shuffle(a, b, low);
    row[i + B] = __builtin_shuffle(a, b, high);
  }
}
}  // namespace impl

// to[j*to_stride + i] = from[i*from_stride + j] for 0 <= i, j < N; strides in elements. Bits are
// moved, not converted.
template <class S, int N>
TK_FN void transpose(const S* from, int64_t from_stride, S* to, int64_t to_stride) {
  using U = Bits<S>;
  if constexpr (sizeof(U) >= 4 && N * int(sizeof(U)) <= kNativeBytes &&
                (N == 4 || N == 8 || N == 16)) {
    typedef U Row __attribute__((vector_size(sizeof(U) * N)));
    Row row[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) __builtin_memcpy(&row[i], from + i * from_stride, sizeof(Row));
    impl::transpose_stage<1>(row);
    impl::transpose_stage<2>(row);
    if constexpr (N > 4) impl::transpose_stage<4>(row);
    if constexpr (N > 8) impl::transpose_stage<8>(row);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) __builtin_memcpy(to + i * to_stride, &row[i], sizeof(Row));
  } else {
    for (int j = 0; j < N; ++j)
      for (int i = 0; i < N; ++i)
        bits_of(to)[j * to_stride + i] = bits_of(from)[i * from_stride + j];
  }
}
// The same for a tile cut off at the edge: rows x columns of `from`, each at most N.
template <class S, int N>
TK_FN void transpose_tail(const S* from, int64_t from_stride, S* to, int64_t to_stride,
                          int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      bits_of(to)[j * to_stride + i] = bits_of(from)[i * from_stride + j];
}

}  // namespace tk

#endif  // TENSORD_CPU_TRANSPOSE_H_
