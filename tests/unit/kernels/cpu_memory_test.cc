// SPDX-License-Identifier: Apache-2.0
// Loads, stores and casts of every storage type, tiles and atomics.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu.h"

namespace {

constexpr int W = tk::kLanes;

// A vector that has addresses for bool too.
template <class S>
class Array {
 public:
  explicit Array(size_t n, S fill = {}) : size_(n), data_(new S[n]) { Fill(fill); }
  Array(const S* first, size_t n) : size_(n), data_(new S[n]) {
    std::copy(first, first + n, data());
  }
  void Fill(S x) { std::fill(data(), data() + size_, x); }
  S* data() const { return data_.get(); }
  size_t size() const { return size_; }
  S& operator[](size_t i) const { return data_[i]; }

 private:
  size_t size_;
  std::unique_ptr<S[]> data_;
};

template <class S>
class Memory : public testing::Test {};
using StorageTypes =
    testing::Types<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t,
                   tk::half, tk::bfloat16, float, double, tk::float8_e4m3fn, tk::float8_e5m2>;
TYPED_TEST_SUITE(Memory, StorageTypes);

// Small whole numbers: exact in every type.
template <class S>
S Element(int i) {
  S s;
  tk::store_scalar(&s, tk::Compute<S>(i % 7));
  return s;
}
template <class S>
tk::Compute<S> Value(int i) {
  return tk::Compute<S>(i % 7);
}
template <class S>
bool Same(S a, S b) {
  return std::memcmp(&a, &b, sizeof(S)) == 0;
}

// Numbers 0 to n. Those from 1 are what is read, as they are not aligned.
template <class S>
Array<S> Elements(int n) {
  Array<S> data(size_t(n) + 1);
  for (int i = 0; i <= n; ++i) data[i] = Element<S>(i);
  return data;
}

// Lane i has number 1 + first + step * i; lanes from n on have 0.
template <class S>
void ExpectLoaded(const char* what, const tk::Compute<S>* lanes, int width, int first, int step,
                  int n) {
  for (int i = 0; i < width; ++i) {
    EXPECT_EQ(lanes[i], i < n ? Value<S>(1 + first + step * i) : tk::Compute<S>(0))
        << what << ", lane " << i << " of " << width << ", the first " << n << " on";
  }
}
// Numbers 1 to n are at every step-th place, and `guard` at the others; then puts it at all places.
template <class S>
void ExpectStored(const char* what, Array<S>& places, S guard, int step, int n) {
  for (int i = 0; i < int(places.size()); ++i) {
    const bool written = i % step == 0 && i / step < n;
    EXPECT_TRUE(Same(places[i], written ? Element<S>(i / step + 1) : guard))
        << what << ", place " << i << ", the first " << n << " lanes on";
  }
  places.Fill(guard);
}

template <class S, int N>
void CheckAccesses() {
  using Lanes = tk::Vec<tk::Compute<S>, N>;
  const Array<S> data = Elements<S>(4 * N);
  const S* p = data.data() + 1;
  const auto loaded = [](const char* what, Lanes lanes, int step, int n = N) {
    ExpectLoaded<S>(what, tk::to_lanes(lanes).at, N, 0, step, n);
  };
  const Lanes whole = tk::load<S, N>(p);
  const auto index = tk::iota<int64_t, N>(0) * tk::broadcast<N>(int64_t(2));
  loaded("load", whole, 1);
  loaded("strided", tk::strided<S, N>(p, 3), 3);
  loaded("gather", tk::gather<S, N>(p, index), 2);
  EXPECT_EQ(tk::load_scalar(p), Value<S>(1));

  const S guard = Element<S>(5);
  Array<S> out(3 * N, guard);
  const auto stored = [&](const char* what, int step, int n = N) {
    ExpectStored(what, out, guard, step, n);
  };
  tk::store(out.data(), whole), stored("store", 1);
  tk::store_strided(out.data(), 3, whole), stored("store_strided", 3);
  tk::scatter(out.data(), index, whole), stored("scatter", 2);

  for (int n = 0; n <= N; ++n) {
    // Sits at the end of an exact allocation, so that a sanitizer sees what reads beyond.
    const Array<S> exact(p, size_t(n));
    const auto on = tk::mask_first<N>(n);
    const auto far_where_off = tk::where(on, index, tk::broadcast<N>(int64_t(1) << 40));
    loaded("load_tail", tk::load_tail<S, N>(exact.data(), n), 1, n);
    loaded("load_masked", tk::load_masked<S, N>(exact.data(), on), 1, n);
    loaded("gather_masked", tk::gather_masked<S, N>(p, far_where_off, on), 2, n);
    loaded("strided_tail", tk::strided_tail<S, N>(p, 2, n), 2, n);
    loaded("strided_masked", tk::strided_masked<S, N>(p, 2, on), 2, n);
    tk::store_tail(out.data(), whole, n), stored("store_tail", 1, n);
    tk::store_masked(out.data(), whole, on), stored("store_masked", 1, n);
    tk::store_strided_tail(out.data(), 2, whole, n), stored("store_strided_tail", 2, n);
    tk::store_strided_masked(out.data(), 2, whole, on), stored("store_strided_masked", 2, n);
    tk::scatter_masked(out.data(), index, whole, on), stored("scatter_masked", 2, n);
  }
}

template <class S, int N>
void CheckPairs() {
  const Array<S> data = Elements<S>(2 * N);
  const auto even = tk::load_even<S, N>(data.data() + 1), odd = tk::load_odd<S, N>(data.data() + 1);
  ExpectLoaded<S>("load_even", tk::to_lanes(even).at, N, 0, 2, N);
  ExpectLoaded<S>("load_odd", tk::to_lanes(odd).at, N, 1, 2, N);
  Array<S> out(2 * N + 1, Element<S>(0));
  tk::store_pairs<S, N>(out.data() + 1, odd, even);
  for (int i = 0; i < N; ++i) {
    EXPECT_TRUE(Same(out[2 * i + 1], data[2 * i + 2])) << i;
    EXPECT_TRUE(Same(out[2 * i + 2], data[2 * i + 1])) << i;
  }
}

TYPED_TEST(Memory, Pairs) {
  CheckPairs<TypeParam, W>();
  CheckPairs<TypeParam, 1>();
}

TYPED_TEST(Memory, AccessesOfAllKinds) {
  CheckAccesses<TypeParam, W>();
  CheckAccesses<TypeParam, 1>();
}

TYPED_TEST(Memory, AtomicAddFromThreads) {
  using S = TypeParam;
  S cells[2] = {Element<S>(0), Element<S>(0)};
  std::thread threads[2];
  for (std::thread& t : threads) {
    t = std::thread([&] {
      for (int i = 0; i < 2; ++i) {
        const auto one = tk::broadcast<W>(tk::Compute<S>(1));
        tk::scatter_add(cells, tk::broadcast<W>(int64_t(1)), one, tk::mask_first<W>(1));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(tk::load_scalar(&cells[0]), tk::Compute<S>(0));
  EXPECT_EQ(tk::load_scalar(&cells[1]), tk::Compute<S>(4));
}

TYPED_TEST(Memory, TransposedTile) {
  using S = TypeParam;
  constexpr int N = 16;
  Array<S> from(N * 20), to(N * 18);
  for (size_t i = 0; i < from.size(); ++i) from[i] = Element<S>(int(i * i));
  const auto check = [&](int n) {
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i) EXPECT_TRUE(Same(to[j * 18 + i], from[i * 20 + j]));
  };
  tk::transpose<S, 16>(from.data(), 20, to.data(), 18), check(16);
  to.Fill(Element<S>(6));
  tk::transpose<S, 8>(from.data(), 20, to.data(), 18), check(8);
  to.Fill(Element<S>(6));
  tk::transpose_tail<S, 16>(from.data(), 20, to.data(), 18, 5, 5), check(5);
}

class Convert : public testing::Test {};

// All codes of the small floats against their definition, and back.
template <class S, int N>
void CheckSmallFloat(int exponent_bits, int mantissa_bits, bool finite) {
  const int total = 1 + exponent_bits + mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  for (uint32_t code = 0; code < 1u << total; ++code) {
    S s;
    s.bits = decltype(s.bits)(code);
    const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    const int exponent = int(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const bool top = exponent == (1 << exponent_bits) - 1;
    float want = exponent ? std::ldexp(float(mantissa | 1u << mantissa_bits),
                                       exponent - bias - mantissa_bits)
                          : std::ldexp(float(mantissa), 1 - bias - mantissa_bits);
    if (finite ? top && mantissa == (1u << mantissa_bits) - 1 : top)
      want = mantissa ? NAN : INFINITY;
    if (code >> (total - 1)) want = -want;
    S in[N], out[N];
    std::fill(in, in + N, s);
    const auto v = tk::load<S, N>(in);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(tk::get(v, N - 1))) << code;
    } else {
      EXPECT_EQ(tk::get(v, N - 1), want) << code;
      EXPECT_EQ(std::signbit(tk::get(v, N - 1)), std::signbit(want)) << code;
      tk::store(out, v);
      EXPECT_EQ(out[N - 1].bits, s.bits) << code;
    }
  }
}
TEST_F(Convert, SmallFloatsDecodeAndEncode) {
  CheckSmallFloat<tk::half, W>(5, 10, false);
  CheckSmallFloat<tk::half, 1>(5, 10, false);
  CheckSmallFloat<tk::bfloat16, W>(8, 7, false);
  CheckSmallFloat<tk::bfloat16, 1>(8, 7, false);
  CheckSmallFloat<tk::float8_e4m3fn, W>(4, 3, true);
  CheckSmallFloat<tk::float8_e5m2, W>(5, 2, false);
}

// Nearest, ties to even: no code is closer than the one given.
template <class S>
void CheckRounding(float top, bool saturates) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> logarithm(-25, 18);
  const auto round = [](float x) { return tk::get(tk::cast<S>(tk::broadcast<W>(x)), 0); };
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp(logarithm(random)) * (i & 1 ? -1 : 1);
    if (std::fabs(x) > top) continue;
    const float y = round(x);
    S code;
    tk::store_scalar(&code, x);
    for (int step : {-1, 1}) {
      S other = code;
      other.bits = decltype(other.bits)(other.bits + step);
      const float z = tk::load_scalar(&other);
      if (std::isfinite(z) && std::signbit(z) == std::signbit(x)) {
        EXPECT_LE(std::fabs(x - y), std::fabs(x - z)) << x;
      }
    }
  }
  EXPECT_EQ(round(3.4e38f), saturates ? top : INFINITY);
  EXPECT_EQ(round(-INFINITY), saturates ? -top : -INFINITY);
  EXPECT_TRUE(std::isnan(round(NAN)));
  EXPECT_TRUE(std::signbit(round(-0.0f)));
}
TEST_F(Convert, SmallFloatsRoundToNearest) {
  CheckRounding<tk::half>(65504, false);
  CheckRounding<tk::bfloat16>(1e20f, false);
  CheckRounding<tk::float8_e4m3fn>(448, true);
  CheckRounding<tk::float8_e5m2>(57344, false);
  EXPECT_EQ(tk::get(tk::cast<tk::half>(tk::broadcast<W>(2049.0f)), 0), 2048.0f);  // a tie
  EXPECT_EQ(tk::get(tk::cast<tk::half>(tk::broadcast<W>(2051.0f)), 0), 2052.0f);
  EXPECT_EQ(tk::get(tk::cast<tk::bfloat16>(tk::broadcast<W>(257.0f)), 0), 256.0f);
}

template <class To>
void ExpectCast(const To* lanes, int width, To want, double from) {
  for (int i = 0; i < width; ++i) EXPECT_EQ(lanes[i], want) << from << " to " << sizeof(To);
}
template <class To, class From, int N>
void CheckCast(const std::vector<From>& values) {
  for (From x : values) {
    const auto lanes = tk::to_lanes(tk::cast<To>(tk::broadcast<N>(x)));
    ExpectCast(lanes.at, N, To(x), double(x));
  }
}
template <class From, int N>
void CheckCasts() {
  std::vector<From> small = {From(0), From(1), From(2), From(100), From(117)}, all = small;
  if constexpr (tk::kIsFloat<From>) {
    small.insert(small.end(), {From(1.5), From(99.99)});
    all = small;
  } else if constexpr (!tk::kSame<From, bool>) {
    all.insert(all.end(), {tk::highest<From>(), tk::lowest<From>(), From(-1)});
  }
  CheckCast<bool, From, N>(all);
  CheckCast<uint8_t, From, N>(all);
  CheckCast<int8_t, From, N>(all);
  CheckCast<int16_t, From, N>(all);
  CheckCast<uint16_t, From, N>(all);
  CheckCast<int32_t, From, N>(all);
  CheckCast<uint32_t, From, N>(all);
  CheckCast<int64_t, From, N>(all);
  CheckCast<uint64_t, From, N>(all);
  CheckCast<float, From, N>(all);
  CheckCast<double, From, N>(all);
}
template <int N>
void CheckAllCasts() {
  CheckCasts<bool, N>();
  CheckCasts<uint8_t, N>();
  CheckCasts<int8_t, N>();
  CheckCasts<int16_t, N>();
  CheckCasts<uint16_t, N>();
  CheckCasts<int32_t, N>();
  CheckCasts<uint32_t, N>();
  CheckCasts<int64_t, N>();
  CheckCasts<uint64_t, N>();
  CheckCasts<float, N>();
  CheckCasts<double, N>();
}
TEST_F(Convert, CastsBetweenAllTypes) {
  CheckAllCasts<W>();
  CheckAllCasts<1>();
  // As PyTorch: NaN is true, and floats wrap into small integers.
  EXPECT_TRUE(tk::get(tk::cast<bool>(tk::broadcast<W>(NAN)), 0));
  EXPECT_EQ(tk::get(tk::cast<uint8_t>(tk::broadcast<W>(-1.5f)), 0), 255);
  EXPECT_EQ(tk::get(tk::cast<uint8_t>(tk::broadcast<W>(300.0f)), 0), 44);
  EXPECT_EQ(tk::get(tk::cast<int64_t>(tk::broadcast<W>(-3e9f)), W - 1), -3000000000);
}

TEST_F(Convert, MasksSelectEveryType) {
  const auto on = tk::lt(tk::iota<int32_t, W>(0), tk::broadcast<W>(int32_t(W / 2)));
  const auto check = [&](auto a, auto b) {
    const auto v = tk::where(on, tk::broadcast<W>(a), tk::broadcast<W>(b));
    for (int i = 0; i < W; ++i) EXPECT_EQ(tk::get(v, i), i < W / 2 ? a : b);
  };
  check(int8_t(1), int8_t(2)), check(uint16_t(1), uint16_t(2)), check(int32_t(1), int32_t(2));
  check(int64_t(1), int64_t(2)), check(1.0f, 2.0f), check(1.0, 2.0), check(true, false);
  EXPECT_EQ(tk::mask_bits(on), (1u << W / 2) - 1);
  EXPECT_EQ(tk::mask_any(on), W > 1);
  EXPECT_FALSE(tk::mask_all(on));
  EXPECT_TRUE(tk::mask_all(on | ~on));
  EXPECT_FALSE(tk::mask_any(on ^ on));
}

}  // namespace
