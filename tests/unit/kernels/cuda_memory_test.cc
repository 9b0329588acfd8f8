// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude's small floats, bit by bit, and its accesses to memory for every storage type
// and width, compiled for the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>

#include "tests/unit/kernels/samples.h"
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

using tensord::testing::Same;
using tensord::testing::Samples;

// The types of elements as both preludes name them.
template <class S>
struct CpuStorage {
  typedef S type;
};
template <>
struct CpuStorage<tk::half> {
  typedef tk_cpu::half type;
};
template <>
struct CpuStorage<tk::bfloat16> {
  typedef tk_cpu::bfloat16 type;
};
template <>
struct CpuStorage<tk::float8_e4m3fn> {
  typedef tk_cpu::float8_e4m3fn type;
};
template <>
struct CpuStorage<tk::float8_e5m2> {
  typedef tk_cpu::float8_e5m2 type;
};

// --- small floats

template <class S>
class StorageTest : public testing::Test {};
using StorageTypes =
    testing::Types<float, double, tk::half, tk::bfloat16, tk::float8_e4m3fn, tk::float8_e5m2,
                   int8_t, uint8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, bool>;
TYPED_TEST_SUITE(StorageTest, StorageTypes);

TYPED_TEST(StorageTest, SmallFloatsRoundAsOnTheCpu) {
  using S = TypeParam;
  using C = typename CpuStorage<S>::type;
  if constexpr (tk::kIsSmallFloat<S>) {
    using U = tk::Bits<S>;
    const auto decode_cpu = [](U bits) {
      return tk_cpu::get(tk_cpu::decode<C, 1>(tk_cpu::Vec<U, 1>{{bits}}), 0);
    };
    const auto check = [&](float x) {
      const U want = tk_cpu::encode<C, 1>(tk_cpu::Vec<float, 1>{{x}}).part[0];
      ASSERT_EQ(tk::scalar::encode<S>(x), want) << x;
      const auto pair = tk::pack<S, 2>(tk::Vec<float, 2>{{x, 1.0f}});
      ASSERT_EQ(U(pair.word[0]), want) << x;
      ASSERT_TRUE(Same(tk::round_to<S>(tk::Vec<float, 2>{{1.0f, x}}).at[1], decode_cpu(want)));
    };
    for (uint32_t bits = 0; bits < 1u << (8 * sizeof(S)); ++bits) {
      const float x = decode_cpu(U(bits)), next = decode_cpu(U(bits + 1));
      ASSERT_TRUE(Same(tk::scalar::decode<S>(U(bits)), x)) << bits;
      check(x);
      if (!(std::fabs(x) <= 1e38f && std::fabs(next) <= 1e38f)) continue;
      const float tie = (x + next) / 2;
      check(tie), check(std::nextafter(tie, 1e38f)), check(std::nextafter(tie, -1e38f));
    }
    for (float x : Samples<float>()) check(x);
  }
}

// --- memory

// A bit per lane.
constexpr unsigned kAll = 0xffff, kTwoOfThree = 0xdb6d;
constexpr unsigned FirstLanes(int n) { return (1u << n) - 1; }

// Elements by lanes.
int Each(int lane) { return lane; }
int Seventh(int lane) { return 7 * lane; }
int Even(int lane) { return 2 * lane; }
int Odd(int lane) { return 2 * lane + 1; }
int Scrambled(int lane) { return 5 * lane % 41; }

// Memory of random elements to load from, and `to` that is zero.
template <class S>
struct Memory {
  using T = tk::Compute<S>;

  explicit Memory(int width) : width(width) {
    std::mt19937_64 random(3);
    for (unsigned char& byte : from) byte = uint8_t(random() % (std::is_same_v<S, bool> ? 2 : 100));
    Clear();
  }
  void Clear() { std::memset(to, 0, sizeof(to)); }

  const S* p() const { return reinterpret_cast<const S*>(from); }
  S* q() { return reinterpret_cast<S*>(to); }
  T Loaded(int i) const { return tk::load_scalar(p() + i); }
  T Stored(int i) { return tk::load_scalar(q() + i); }

  // Lane i has the element `first` + element(i), or 0 where `on` lacks it.
  void ExpectLoaded(const char* what, const T* lanes, int (*element)(int), unsigned on = kAll,
                    int first = 0) const {
    for (int i = 0; i < width; ++i) {
      const T want = (on >> i & 1) != 0 ? Loaded(first + element(i)) : T(0);
      ASSERT_TRUE(Same(lanes[i], want))
          << what << " W=" << width << " from " << first << " in lane " << i;
    }
  }
  // The first elements were stored, every `stride`-th place has one, and 0 is around them and where
  // `on` lacks a lane; clears it.
  void ExpectStored(const char* what, int stride, unsigned on = kAll) {
    for (int i = 0; i < 128; ++i) {
      const int lane = i / stride;
      const bool stored = i % stride == 0 && lane < width && (on >> lane & 1) != 0;
      ASSERT_TRUE(Same(Stored(i), stored ? Loaded(lane) : T(0)))
          << what << " W=" << width << " at " << i;
    }
    Clear();
  }
  void ExpectStoredTwice(const char* what) {
    for (int i = 0; i < 2 * width; ++i) {
      ASSERT_TRUE(Same(Stored(i), Loaded(i / 2))) << what << " W=" << width << " at " << i;
    }
    Clear();
  }
  // x between zeros.
  void ExpectStoredAlone(int place, T x) {
    ASSERT_EQ(Stored(place), x);
    ASSERT_EQ(Stored(place - 1), T(0));
    ASSERT_EQ(Stored(place + 1), T(0));
  }

  alignas(16) unsigned char from[sizeof(S) * 128], to[sizeof(S) * 128];
  int width;
};

template <int W>
tk::Mask<W> MaskOf(unsigned on) {
  tk::Mask<W> mask;
  for (int i = 0; i < W; ++i) mask.at[i] = (on >> i & 1) != 0;
  return mask;
}

template <class S, int W>
void CheckLoads(const Memory<S>& m) {
  const tk::Mask<W> on = MaskOf<W>(kTwoOfThree);
  tk::Vec<int64_t, W> index;
  for (int i = 0; i < W; ++i) index.at[i] = Scrambled(i);
  const auto expect = [&](const char* what, const tk::Vec<tk::Compute<S>, W>& lanes,
                          int (*element)(int), unsigned on = kAll,
                          int first = 0) { m.ExpectLoaded(what, lanes.at, element, on, first); };
  expect("load", tk::load<S, W>(m.p()), Each);
  expect("load_streaming", tk::load_streaming<S, W>(m.p()), Each);
  expect("load_const", tk::load_const<S, W>(m.p()), Each);
  expect("load_evict_last", tk::load_evict_last<S, W>(m.p()), Each);
  expect("load_masked", tk::load_masked<S, W>(m.p(), on), Each, kTwoOfThree);
  expect("strided", tk::strided<S, W>(m.p(), int64_t(7)), Seventh);
  expect("strided_masked", tk::strided_masked<S, W>(m.p(), 7, on), Seventh, kTwoOfThree);
  expect("gather", tk::gather<S, W>(m.p(), index), Scrambled);
  expect("gather_masked", tk::gather_masked<S, W>(m.p(), index, on), Scrambled, kTwoOfThree);
  expect("load_even", tk::load_even<S, W>(m.p()), Even);
  expect("load_odd", tk::load_odd<S, W>(m.p()), Odd);
  for (int start = 0; start < 16; ++start) {
    expect("load_unaligned", tk::load_unaligned<S, W>(m.p() + start), Each, kAll, start);
  }
}

template <class S, int W>
void CheckStores(Memory<S>& m) {
  const tk::Mask<W> on = MaskOf<W>(kTwoOfThree), all = tk::broadcast<W>(true);
  const auto plain = tk::load<S, W>(m.p());
  tk::store<S, W>(m.q(), plain), m.ExpectStored("store", 1);
  tk::store_streaming<S, W>(m.q(), plain), m.ExpectStored("store_streaming", 1);
  tk::store_masked<S, W>(m.q(), plain, on), m.ExpectStored("store_masked", 1, kTwoOfThree);
  tk::store_masked<S, W>(m.q(), plain, all), m.ExpectStored("store_masked of all", 1);
  tk::store_strided<S, W>(m.q(), 7, plain), m.ExpectStored("store_strided", 7);
  tk::store_strided_masked<S, W>(m.q(), int64_t(7), plain, on);
  m.ExpectStored("store_strided_masked", 7, kTwoOfThree);
  tk::store_pairs<S, W>(m.q(), plain, plain), m.ExpectStoredTwice("store_pairs");
}

// The first `left` lanes.
template <class S, int W>
void CheckTails(Memory<S>& m) {
  const auto plain = tk::load<S, W>(m.p());
  for (int left = 0; left <= W; ++left) {
    const unsigned on = FirstLanes(left);
    m.ExpectLoaded("strided_tail", tk::strided_tail<S, W>(m.p(), 7, left).at, Seventh, on);
    m.ExpectLoaded("load_tail", tk::load_tail<S, W>(m.p(), left).at, Each, on);
    tk::store_tail<S, W>(m.q(), plain, left), m.ExpectStored("store_tail", 1, on);
  }
}

template <class S, int W>
void CheckScatters(Memory<S>& m) {
  using T = tk::Compute<S>;
  const tk::Mask<W> on = MaskOf<W>(kTwoOfThree), all = tk::broadcast<W>(true);
  const auto plain = tk::load<S, W>(m.p());
  const auto by_five = tk::mul(tk::iota<int, W>(0), tk::broadcast<W>(5));
  tk::scatter<S, W>(m.q(), by_five, plain), m.ExpectStored("scatter", 5);
  tk::scatter_masked<S, W>(m.q(), by_five, plain, on);
  m.ExpectStored("scatter_masked", 5, kTwoOfThree);
  tk::scatter_add<S, W>(m.q(), by_five, plain, on), m.ExpectStored("scatter_add", 5, kTwoOfThree);
  tk::scatter_add_run<S, W>(m.q(), plain, on);
  m.ExpectStored("scatter_add_run", 1, kTwoOfThree);
  tk::scatter_add_run<S, W>(m.q(), plain, all), m.ExpectStored("scatter_add_run of all", 1);
  // All lanes at one place.
  const T one = T(1);
  tk::scatter_add<S, W>(m.q(), tk::broadcast<W>(int64_t(3)), tk::broadcast<W>(one), all);
  // Two bits of mantissa: 8 + 1 is 8.
  const T sum =
      std::is_same_v<S, bool> ? one : T(std::is_same_v<S, tk::float8_e5m2> ? std::min(W, 8) : W);
  m.ExpectStoredAlone(3, sum);
  m.Clear();
}

template <class S, int W>
void CheckMemory() {
  Memory<S> memory(W);
  CheckLoads<S, W>(memory);
  CheckStores<S, W>(memory);
  CheckTails<S, W>(memory);
  CheckScatters<S, W>(memory);
}
TYPED_TEST(StorageTest, LoadsAndStoresMoveTheRightElements) {
  CheckMemory<TypeParam, 1>();
  CheckMemory<TypeParam, 2>();
  CheckMemory<TypeParam, 4>();
  CheckMemory<TypeParam, 8>();
  CheckMemory<TypeParam, 16>();
}

}  // namespace
