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
#include "tests/unit/kernels/cpu_isa.h"

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
class Memory : public kernels_cpu::IsaTest {};
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

template <class S, int N>
void CheckAccesses() {
  // Sources sit at the end of an exact allocation, so that a sanitizer sees what reads beyond.
  Array<S> data(4 * N + 1);
  for (size_t i = 0; i < data.size(); ++i) data[i] = Element<S>(int(i));
  const S* p = data.data() + 1;  // unaligned

  auto whole = tk::load<S, N>(p);
  auto spread = tk::strided<S, N>(p, 3);
  const auto index = tk::iota<int64_t, N>(0) * tk::broadcast<N>(int64_t(2));
  auto gathered = tk::gather<S, N>(p, index);
  for (int i = 0; i < N; ++i) {
    EXPECT_EQ(tk::get(whole, i), Value<S>(i + 1));
    EXPECT_EQ(tk::get(spread, i), Value<S>(3 * i + 1));
    EXPECT_EQ(tk::get(gathered, i), Value<S>(2 * i + 1));
  }
  EXPECT_EQ(tk::load_scalar(p), Value<S>(1));

  for (int n = 0; n <= N; ++n) {
    const Array<S> exact(data.data() + 1, size_t(n));
    const auto on = tk::mask_first<N>(n);
    const auto tail = tk::load_tail<S, N>(exact.data(), n);
    const auto masked = tk::load_masked<S, N>(exact.data(), on);
    const auto some =
        tk::gather_masked<S, N>(p, tk::where(on, index, tk::broadcast<N>(int64_t(1) << 40)), on);
    const auto rows = tk::strided_tail<S, N>(p, 2, n), rows2 = tk::strided_masked<S, N>(p, 2, on);
    for (int i = 0; i < N; ++i) {
      const auto want = i < n ? Value<S>(i + 1) : tk::Compute<S>(0);
      EXPECT_EQ(tk::get(tail, i), want);
      EXPECT_EQ(tk::get(masked, i), want);
      const auto far = i < n ? Value<S>(2 * i + 1) : tk::Compute<S>(0);
      EXPECT_EQ(tk::get(some, i), far);
      EXPECT_EQ(tk::get(rows, i), far);
      EXPECT_EQ(tk::get(rows2, i), far);
    }
    const S guard = Element<S>(5);
    Array<S> out(3 * N, guard);
    const auto check = [&](int step) {
      for (int i = 0; i < 3 * N; ++i) {
        const bool written = i % step == 0 && i / step < n;
        EXPECT_TRUE(Same(out[i], written ? data[i / step + 1] : guard)) << i;
      }
      out.Fill(guard);
    };
    tk::store_tail(out.data(), whole, n), check(1);
    tk::store_masked(out.data(), whole, on), check(1);
    tk::store_strided_tail(out.data(), 2, whole, n), check(2);
    tk::store_strided_masked(out.data(), 2, whole, on), check(2);
    tk::scatter_masked(out.data(), index, whole, on), check(2);
    if (n == N) {
      tk::store(out.data(), whole), check(1);
      tk::store_strided(out.data(), 3, whole), check(3);
      tk::scatter(out.data(), index, whole), check(2);
    }
  }
}

template <class S, int N>
void CheckPairs() {
  Array<S> data(2 * N + 1);
  for (size_t i = 0; i < data.size(); ++i) data[i] = Element<S>(int(i));
  const auto even = tk::load_even<S, N>(data.data() + 1), odd = tk::load_odd<S, N>(data.data() + 1);
  for (int i = 0; i < N; ++i) {
    EXPECT_EQ(tk::get(even, i), Value<S>(2 * i + 1));
    EXPECT_EQ(tk::get(odd, i), Value<S>(2 * i + 2));
  }
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

class Convert : public kernels_cpu::IsaTest {};

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

template <class To, class From, int N>
void CheckCast(std::vector<From> values) {
  for (From x : values) {
    const To want = To(x);
    const auto got = tk::cast<To>(tk::broadcast<N>(x));
    for (int i : {0, N / 2, N - 1})
      EXPECT_EQ(tk::get(got, i), want) << double(x) << " to " << sizeof(To);
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
