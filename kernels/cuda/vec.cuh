// SPDX-License-Identifier: Apache-2.0
// Vec<T, W>: W elements of T in the registers of one thread. Vec<bool, W> is a mask.
#ifndef TENSORD_CUDA_VEC_CUH_
#define TENSORD_CUDA_VEC_CUH_

#include "tensord/cuda/types.cuh"

namespace tk {

template <class T, int W>
struct Vec {
  T at[W];
};
template <int W>
using Mask = Vec<bool, W>;

template <class T, int W>
TK_FN T get(Vec<T, W> v, int i) {
  return v.at[i];
}

template <int W, class T>
TK_FN Vec<T, W> broadcast(T x) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = x;
  return r;
}
// A vector of v's type that holds x in all lanes: `like(v, 0.5f)`.
template <class T>
struct AsIs {
  typedef T type;
};
template <class T, int W>
TK_FN Vec<T, W> like(Vec<T, W>, typename AsIs<T>::type x) {
  return broadcast<W>(T(x));
}
// A scalar (one lane) in every lane.
template <int W, class T>
TK_FN Vec<T, W> splat(Vec<T, 1> v) {
  return broadcast<W>(v.at[0]);
}
// start, start+1, ...
template <class T, int W>
TK_FN Vec<T, W> iota(T start) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = T(start + T(i));
  return r;
}
// start, start+step, ...
template <class T, int W>
TK_FN Vec<T, W> iota_by(T start, T step) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = T(start + T(i) * step);
  return r;
}

// The same bits as another type of the same size.
template <class To, class From, int W>
TK_FN Vec<To, W> bitcast(Vec<From, W> v) {
  static_assert(sizeof(To) == sizeof(From));
  Vec<To, W> r;
  TK_EACH(i) r.at[i] = __builtin_bit_cast(To, v.at[i]);
  return r;
}

// --- functions of one element made functions of vectors: name(Vec...) is scalar::name per lane

#define TK_LIFT1(name)                                                  \
  template <class T, int W>                                             \
  TK_FN auto name(Vec<T, W> a) -> Vec<decltype(scalar::name(T())), W> { \
    Vec<decltype(scalar::name(T())), W> r;                              \
    TK_EACH(i) r.at[i] = scalar::name(a.at[i]);                         \
    return r;                                                           \
  }
#define TK_LIFT2(name)                                                                    \
  template <class T, int W>                                                               \
  TK_FN auto name(Vec<T, W> a, Vec<T, W> b) -> Vec<decltype(scalar::name(T(), T())), W> { \
    Vec<decltype(scalar::name(T(), T())), W> r;                                           \
    TK_EACH(i) r.at[i] = scalar::name(a.at[i], b.at[i]);                                  \
    return r;                                                                             \
  }

// --- operators. Integers wrap. `/` is for floats; integers use trunc_div.

#define TK_OPERATOR(op)                                                   \
  template <class T, int W>                                               \
  TK_FN Vec<T, W> operator op(Vec<T, W> a, Vec<T, W> b) {                 \
    Vec<T, W> r;                                                          \
    TK_EACH(i) r.at[i] = T(Wrapping<T>(a.at[i]) op Wrapping<T>(b.at[i])); \
    return r;                                                             \
  }
TK_OPERATOR(+)
TK_OPERATOR(-)
TK_OPERATOR(*)
TK_OPERATOR(/)
TK_OPERATOR(&)
TK_OPERATOR(|)
TK_OPERATOR(^)
#undef TK_OPERATOR

template <class T, int W>
TK_FN Vec<T, W> operator-(Vec<T, W> a) {
  Vec<T, W> r;
  TK_EACH(i) {
    if constexpr (kIsFloat<T>)
      r.at[i] = -a.at[i];
    else
      r.at[i] = T(Wrapping<T>(0) - Wrapping<T>(a.at[i]));
  }
  return r;
}
template <class T, int W>
TK_FN Vec<T, W> operator~(Vec<T, W> a) {
  Vec<T, W> r;
  TK_EACH(i) {
    if constexpr (kSame<T, bool>)
      r.at[i] = !a.at[i];
    else
      r.at[i] = T(~a.at[i]);
  }
  return r;
}
// Shifts by a count that is the same in all lanes, 0 <= count < bits of T.
template <class T, int W>
TK_FN Vec<T, W> operator<<(Vec<T, W> a, int count) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = T(Wrapping<T>(a.at[i]) << count);
  return r;
}
template <class T, int W>
TK_FN Vec<T, W> operator>>(Vec<T, W> a, int count) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = T(a.at[i] >> count);
  return r;
}

}  // namespace tk

#endif  // TENSORD_CUDA_VEC_CUH_
