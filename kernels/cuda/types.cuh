// SPDX-License-Identifier: Apache-2.0
// Storage types of tensors, what they are computed in, and index arithmetic.
#ifndef TENSORD_CUDA_TYPES_CUH_
#define TENSORD_CUDA_TYPES_CUH_

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
static_assert(sizeof(int64_t) == 8);
#else
#include <stdint.h>
#endif

#define TK_FN __device__ __forceinline__
// For long bodies: one copy in a kernel, however many lanes and operations call it.
#define TK_CALL static __device__ __noinline__

// A loop over lanes, which must be gone before registers are allocated.
#define TK_EACH(i) _Pragma("unroll") for (int i = 0; i < W; ++i)

namespace tk {

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

// Constants are concepts, enumerators and local variables: NVRTC places others in the device's
// memory, whether a kernel reads them there or not.
template <class A, class B>
struct SameType {
  enum { kValue = 0 };
};
template <class A>
struct SameType<A, A> {
  enum { kValue = 1 };
};
template <class A, class B>
concept kSame = bool(SameType<A, B>::kValue);

template <bool First, class A, class B>
struct Choose {
  typedef A type;
};
template <class A, class B>
struct Choose<false, A, B> {
  typedef B type;
};

template <class S>
concept kIsSmallFloat =
    kSame<S, half> || kSame<S, bfloat16> || kSame<S, float8_e4m3fn> || kSame<S, float8_e5m2>;

// What an element of storage type S is computed in: float for the small floats, else S itself.
template <class S>
using Compute = typename Choose<kIsSmallFloat<S>, float, S>::type;

template <class T>
concept kIsFloat = kSame<T, float> || kSame<T, double>;
template <class T>
concept kIsSigned = kIsFloat<T> || (!kSame<T, bool> && bool(T(-1) < T(0)));

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
using Bits = typename UIntOf<int(sizeof(T))>::type;

// In what T is added and multiplied: integers as unsigned ones of at least 32 bits, for they wrap,
// and an overflow of signed ones is undefined.
template <class T>
using Wrapping = typename Choose<kIsFloat<T> || kSame<T, bool>, T,
                                 typename UIntOf<(sizeof(T) < 4 ? 4 : int(sizeof(T)))>::type>::type;

template <class T>
TK_FN constexpr T infinity() {
  return T(__builtin_bit_cast(float, 0x7f800000u));
}
template <class T>
TK_FN constexpr T quiet_nan() {
  return T(__builtin_bit_cast(float, 0x7fc00000u));
}

// The least and the greatest value; infinities for floats: the identities of max and min.
template <class T>
TK_FN constexpr T lowest() {
  if constexpr (kIsFloat<T>)
    return -infinity<T>();
  else if constexpr (kSame<T, bool>)
    return false;
  else if constexpr (kIsSigned<T>)
    return T(Bits<T>(1) << (sizeof(T) * 8 - 1));
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

// --- index arithmetic: floor semantics for any sign. Two int give int: half the registers, and
// divisions that are several times as fast as those of 64 bits.

template <class A, class B>
TK_FN constexpr auto floor_div_index(A a, B b) {
  const auto q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
template <class A, class B>
TK_FN constexpr auto mod_index(A a, B b) {
  const auto m = a % b;
  return (m != 0 && ((m < 0) != (b < 0))) ? m + b : m;
}
template <class A, class B>
TK_FN constexpr auto min_index(A a, B b) {
  return a < b ? a : b;
}
template <class A, class B>
TK_FN constexpr auto max_index(A a, B b) {
  return a > b ? a : b;
}

}  // namespace tk

#endif  // TENSORD_CUDA_TYPES_CUH_
