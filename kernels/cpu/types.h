// SPDX-License-Identifier: Apache-2.0
// Storage types of tensors, what they are computed in, and the instruction set's width.
//
// The prelude includes nothing but <stdint.h>: every kernel parses it, or loads it precompiled.
#ifndef TENSORD_CPU_TYPES_H_
#define TENSORD_CPU_TYPES_H_

#include <stdint.h>

#define TK_FN static inline __attribute__((always_inline))

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TK_AVX512 1
#else
#define TK_AVX512 0
#endif
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TK_AVX2 1
#else
#define TK_AVX2 0
#endif

namespace tk {

inline constexpr int kNativeBytes = TK_AVX512 ? 64 : TK_AVX2 ? 32 : 16;
// Lanes of a loop: one native register of float. Kernels may use kLanes and 1, and nothing between.
inline constexpr int kLanes = TK_AVX512 ? 16 : TK_AVX2 ? 8 : 1;

// Storage only: arithmetic happens in float.
struct half {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8_e4m3fn {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

template <class S>
struct StorageTraits {
  typedef S Compute;
};
template <>
struct StorageTraits<half> {
  typedef float Compute;
};
template <>
struct StorageTraits<bfloat16> {
  typedef float Compute;
};
template <>
struct StorageTraits<float8_e4m3fn> {
  typedef float Compute;
};
template <>
struct StorageTraits<float8_e5m2> {
  typedef float Compute;
};

// What an element of storage type S is computed in: float for the small floats, else S itself.
template <class S>
using Compute = typename StorageTraits<S>::Compute;

template <class T>
inline constexpr bool kIsFloat = kSame<T, float> || kSame<T, double>;
template <class T>
inline constexpr bool kIsSigned = kIsFloat<T> || T(-1) < T(0);
template <>
inline constexpr bool kIsSigned<bool> = false;

template <int Bytes>
struct UIntOf;
template <>
struct UIntOf<1> {
  typedef uint8_t type;
};
template <>
struct UIntOf<2> {
  typedef uint16_t type;
};
template <>
struct UIntOf<4> {
  typedef uint32_t type;
};
template <>
struct UIntOf<8> {
  typedef uint64_t type;
};
// The unsigned integer that holds the bits of T.
template <class T>
using Bits = typename UIntOf<sizeof(T)>::type;

template <class T>
struct SIntOf {
  typedef T type;
};
template <>
struct SIntOf<uint8_t> {
  typedef int8_t type;
};
template <>
struct SIntOf<uint16_t> {
  typedef int16_t type;
};
template <>
struct SIntOf<uint32_t> {
  typedef int32_t type;
};
template <>
struct SIntOf<uint64_t> {
  typedef int64_t type;
};

template <class T>
TK_FN constexpr T infinity() {
  return T(__builtin_inf());
}
template <class T>
TK_FN constexpr T quiet_nan() {
  return T(__builtin_nan(""));
}

// The least and the greatest value; infinities for floats: the identities of max and min.
template <class T>
TK_FN constexpr T lowest() {
  if constexpr (kIsFloat<T>)
    return -infinity<T>();
  else if constexpr (kSame<T, bool>)
    return false;
  else if constexpr (kIsSigned<T>)
    return T(T(1) << (sizeof(T) * 8 - 1));
  else
    return T(0);
}
template <class T>
TK_FN constexpr T highest() {
  if constexpr (kIsFloat<T>)
    return infinity<T>();
  else if constexpr (kSame<T, bool>)
    return true;
  else
    return T(~lowest<T>());
}

}  // namespace tk

#endif  // TENSORD_CPU_TYPES_H_
