// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude's numbers, compiled for the host: every operation against the CPU prelude, lane
// by lane, the small floats bit by bit, memory accesses for every storage type and width.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "tests/unit/kernels/operands.h"
#include "tests/unit/testing/philox_vectors.h"
#include "tests/unit/testing/scalar_reference.h"
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

// What ops.def is written with.
using namespace tensord::testing;

// The types of elements as both preludes name them.
template <class S>
struct OnCpu {
  typedef S type;
};
template <>
struct OnCpu<tk::half> {
  typedef tk_cpu::half type;
};
template <>
struct OnCpu<tk::bfloat16> {
  typedef tk_cpu::bfloat16 type;
};
template <>
struct OnCpu<tk::float8_e4m3fn> {
  typedef tk_cpu::float8_e4m3fn type;
};
template <>
struct OnCpu<tk::float8_e5m2> {
  typedef tk_cpu::float8_e5m2 type;
};

template <class T>
tk_cpu::Vec<T, 1> CpuVec(T x) {
  return tk_cpu::broadcast<1>(x);
}

// Equal bits, or both NaN.
template <class T>
bool Same(T a, T b) {
  if (a != a && b != b) return true;
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T>
std::string Text(T x) {
  return std::to_string(x);
}

template <class T>
std::vector<T> Samples() {
  std::mt19937_64 random(11);
  std::vector<T> v = SpecialOperands<T>();
  if constexpr (std::is_floating_point_v<T>) {
    for (int i = 0; i < 30; ++i) {
      v.push_back(T(std::ldexp(double(int64_t(random())), -60)));
      v.push_back(T(std::ldexp(double(int64_t(random())), int(random() % 40) - 80)));
    }
  } else if constexpr (!std::is_same_v<T, bool>) {
    for (int i = 0; i < 40; ++i) v.push_back(T(random() >> random() % 64));
  }
  return v;
}

// --- every operation against the CPU's

// Two results that are each within the tolerance of the exact one. Other libraries' functions have
// tolerances of their own, hence the least bound.
template <class T>
bool IsNear(T got, T want, const Tolerance& tolerance) {
  if (Same(got, want) || got == want) return true;
  constexpr bool kFloat = sizeof(T) == 4;
  const double ulps = kFloat ? tolerance.ulps : tolerance.ulps64;
  const double absolute = kFloat ? tolerance.absolute : tolerance.absolute64;
  const double relative =
      std::max(2 * ulps * double(std::numeric_limits<T>::epsilon()), kFloat ? 1e-6 : 1e-14);
  const double size = std::fabs(double(want));
  return std::fabs(double(got) - double(want)) <=
         relative * size + 2 * absolute * std::max(1.0, size) + 1e-44;
}

// f and g, of this prelude and of the CPU's, on vectors of four. Lanes differ in the last operand
// alone, so that those of random numbers share a seed.
template <class T, class First, int kArity, class F, class G>
void CompareType(const std::string& name, const Tolerance& tolerance, F f, G g) {
  // Of two zeros either may come back: MathTest.ExtremesKeepNan.
  const bool exact = tolerance.IsExact() && name != "minimum" && name != "maximum";
  const std::vector<T> samples = Samples<T>();
  const size_t n = samples.size();
  for (size_t i = 0; i < (kArity > 1 ? n : 1); ++i) {
    for (size_t j = 0; j < n; j += 4) {
      const auto lanes = [&](auto to, auto sample) {
        tk::Vec<decltype(to), 4> v;
        for (int k = 0; k < 4; ++k) v.at[k] = static_cast<decltype(to)>(sample(k));
        return v;
      };
      const auto changing = [&](int k) { return samples[(j + k) % n]; };
      const auto first = [&](int k) { return kArity == 1 ? changing(k) : samples[i]; };
      const auto second = [&](int k) {
        return kArity == 2 ? changing(k) : samples[(i + j / 4) % n];
      };
      const auto a = lanes(First(), first);
      const auto b = lanes(T(), second), c = lanes(T(), changing);
      const auto got = ApplyFirst<kArity>(f, a, b, c);
      for (int k = 0; k < 4; ++k) {
        const auto want = tk_cpu::get(
            ApplyFirst<kArity>(g, CpuVec(a.at[k]), CpuVec(b.at[k]), CpuVec(c.at[k])), 0);
        bool equal = Same(got.at[k], want);
        if constexpr (std::is_floating_point_v<std::remove_const_t<decltype(want)>>) {
          equal = equal || (!exact && IsNear(got.at[k], want, tolerance));
        }
        ASSERT_TRUE(equal) << name << " of " << Text(a.at[k]) << ", " << Text(b.at[k]) << ", "
                           << Text(c.at[k]) << " is " << Text(got.at[k]) << ", not " << Text(want);
      }
    }
  }
}

template <Types kTypes, Result kResult, int kArity, class F, class G>
void CompareOperation(const std::string& name, const Tolerance& tolerance, F f, G g) {
  ForEachType<kTypes>([&]<class T>() {
    // Without FMA the CPU rounds twice: MathTest.FmaRoundsOnce.
    if (name == "fma" && std::is_floating_point_v<T>) return;
    CompareType<T, FirstOperand<T, kResult>, kArity>(name, tolerance, f, g);
  });
}

#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance) \
  TEST(Operation, name) {                                                          \
    CompareOperation<Types::types, Result::result, arity>(                         \
        #name, tolerance, [](auto... v) { return tk::name(v...); },                \
        [](auto... v) { return tk_cpu::name(v...); });                             \
  }
#include "compiler/loop_ir/ops.def"

template <class T>
void CheckFma() {
  const std::vector<T> samples = Samples<T>();
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < samples.size(); ++j) {
      const T a = samples[i], b = samples[j], c = samples[(i + j) % samples.size()];
      const auto of = [](T x) { return tk::broadcast<2>(x); };
      ASSERT_TRUE(Same(tk::fma(of(a), of(b), of(c)).at[1], std::fma(a, b, c)))
          << a << " * " << b << " + " << c;
    }
  }
}
TEST(MathTest, FmaRoundsOnce) {
  CheckFma<float>();
  CheckFma<double>();
}

// By value: of two zeros either may come back.
template <class T>
void CheckExtremes() {
  for (T x : Samples<T>()) {
    for (T y : Samples<T>()) {
      const T low = tk::minimum(tk::broadcast<2>(x), tk::broadcast<2>(y)).at[1];
      const T high = tk::maximum(tk::broadcast<2>(x), tk::broadcast<2>(y)).at[1];
      if (std::isnan(x) || std::isnan(y)) {
        ASSERT_TRUE(std::isnan(low) && std::isnan(high)) << x << " " << y;
      } else {
        ASSERT_EQ(low, std::min(x, y));
        ASSERT_EQ(high, std::max(x, y));
      }
    }
  }
}
TEST(MathTest, ExtremesKeepNan) {
  CheckExtremes<float>();
  CheckExtremes<double>();
}

template <class T>
class CastTest : public testing::Test {};
using ComputeTypes = testing::Types<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                                    uint32_t, int64_t, uint64_t, bool>;
TYPED_TEST_SUITE(CastTest, ComputeTypes);

TYPED_TEST(CastTest, CastsEqualTheCpus) {
  using T = TypeParam;
  const auto cast_to = [](auto to) {
    using To = decltype(to);
    for (T x : Samples<T>()) {
      // A float beyond the integers: some integer, and on the host undefined.
      if (std::is_floating_point_v<T> && !(std::fabs(double(x)) < 2e9)) continue;
      const To got = tk::cast<To>(tk::broadcast<2>(x)).at[1];
      ASSERT_TRUE(Same(got, tk_cpu::get(tk_cpu::cast<To>(CpuVec(x)), 0))) << Text(x);
    }
  };
  cast_to(float()), cast_to(double()), cast_to(bool()), cast_to(int8_t()), cast_to(uint8_t());
  cast_to(int16_t()), cast_to(uint16_t()), cast_to(int32_t()), cast_to(int64_t());
  if constexpr (!std::is_floating_point_v<T>) cast_to(uint32_t()), cast_to(uint64_t());
}

// --- approximations

#define EXPECT_ULPS(T, name, reference, ulps)                                            \
  for (T x : many) {                                                                     \
    const T got = tk::name(tk::broadcast<2>(x)).at[1];                                   \
    ASSERT_LE(UlpError<T>(got, reference), ulps) << #name << "(" << x << ") is " << got; \
  }

TEST(MathTest, OwnApproximationsAreAccurate) {
  std::vector<float> many = Samples<float>();
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> wide(-60000, 60000), narrow(-20, 20);
  for (int i = 0; i < 200000; ++i) many.push_back(i & 1 ? wide(random) : narrow(random));
  EXPECT_ULPS(float, sin, std::sin((long double)x), 2);
  EXPECT_ULPS(float, cos, std::cos((long double)x), 2);
  for (float& x : many) x = std::clamp(x, -87.0f, 1e30f);
  EXPECT_ULPS(float, sigmoid, 1 / (1 + std::exp(-(long double)x)), 2.5);
  EXPECT_EQ(tk::scalar::sigmoid(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(tk::scalar::sigmoid(std::numeric_limits<float>::infinity()), 1);
  EXPECT_TRUE(std::signbit(tk::scalar::sin(-0.0f)));
}

TEST(MathTest, NormalDistributionKeepsTheDigitsOfItsTails) {
  for (double x = -12.9; x < 13; x += 0.013) {
    const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double pdf = std::exp(-x * x / 2) * 0.39894228040143268;
    const auto f = tk::broadcast<1>(float(x));
    const double exact_x = double(float(x)), slope = std::fabs(exact_x - x) * pdf;
    EXPECT_NEAR(tk::normal_cdf(f).at[0], cdf, 2e-5 * std::min(cdf, 1e-3) + 3e-7 * cdf + 2 * slope);
    EXPECT_NEAR(tk::normal_pdf(f).at[0], pdf, 2e-5 * pdf);
    EXPECT_NEAR(tk::normal_cdf(tk::broadcast<1>(x)).at[0], cdf, 1e-13 * cdf);
    EXPECT_NEAR(tk::normal_pdf(tk::broadcast<1>(x)).at[0], pdf, 1e-13 * pdf);
  }
  for (float x : {INFINITY, -INFINITY}) {
    EXPECT_EQ(tk::normal_cdf(tk::broadcast<1>(x)).at[0], x > 0);
    EXPECT_EQ(tk::normal_pdf(tk::broadcast<1>(x)).at[0], 0);
  }
  EXPECT_TRUE(std::isnan(tk::normal_cdf(tk::broadcast<1>(NAN)).at[0]));
}

// --- small floats

template <class S>
class StorageTest : public testing::Test {};
using StorageTypes =
    testing::Types<float, double, tk::half, tk::bfloat16, tk::float8_e4m3fn, tk::float8_e5m2,
                   int8_t, uint8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, bool>;
TYPED_TEST_SUITE(StorageTest, StorageTypes);

TYPED_TEST(StorageTest, SmallFloatsRoundAsOnTheCpu) {
  using S = TypeParam;
  using C = typename OnCpu<S>::type;
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

// Memory of random elements to load from, `to` that is zero, and a mask and an index for W lanes.
template <class S, int W>
struct Memory {
  using T = tk::Compute<S>;

  Memory() {
    std::mt19937_64 random(3);
    for (unsigned char& byte : from) byte = uint8_t(random() % (std::is_same_v<S, bool> ? 2 : 100));
    Clear();
    for (int i = 0; i < W; ++i) on.at[i] = i % 3 != 1, index.at[i] = 5 * i % 41;
  }
  void Clear() { std::memset(to, 0, sizeof(to)); }

  const S* p() const { return reinterpret_cast<const S*>(from); }
  S* q() { return reinterpret_cast<S*>(to); }
  T Loaded(int i) const { return tk::load_scalar(p() + i); }
  T Stored(int i) { return tk::load_scalar(q() + i); }

  // What was stored, every `stride`-th element from the first, and 0 around it; clears it.
  void ExpectStored(const char* what, int stride, bool masked) {
    for (int i = 0; i < 128; ++i) {
      const bool stored = i % stride == 0 && i / stride < W;
      const T want = stored && (!masked || on.at[i / stride]) ? Loaded(i / stride) : T(0);
      ASSERT_TRUE(Same(Stored(i), want)) << what << " W=" << W << " at " << i;
    }
    Clear();
  }

  alignas(16) unsigned char from[sizeof(S) * 128], to[sizeof(S) * 128];
  tk::Mask<W> on;
  tk::Vec<int64_t, W> index;
};

template <class S, int W>
void CheckLoads(Memory<S, W> m) {
  using T = tk::Compute<S>;
  const tk::Vec<T, W> plain = tk::load<S, W>(m.p()), streaming = tk::load_streaming<S, W>(m.p()),
                      constant = tk::load_const<S, W>(m.p()),
                      last = tk::load_evict_last<S, W>(m.p()),
                      masked = tk::load_masked<S, W>(m.p(), m.on),
                      strided = tk::strided<S, W>(m.p(), int64_t(7)),
                      strided_masked = tk::strided_masked<S, W>(m.p(), 7, m.on),
                      gathered = tk::gather<S, W>(m.p(), m.index),
                      gathered_masked = tk::gather_masked<S, W>(m.p(), m.index, m.on);
  for (int i = 0; i < W; ++i) {
    const T x = m.Loaded(i), far = m.Loaded(7 * i), indexed = m.Loaded(int(m.index.at[i]));
    ASSERT_TRUE(Same(plain.at[i], x) && Same(streaming.at[i], x) && Same(constant.at[i], x));
    ASSERT_TRUE(Same(last.at[i], x));
    ASSERT_TRUE(Same(masked.at[i], m.on.at[i] ? x : T(0)));
    ASSERT_TRUE(Same(strided.at[i], far));
    ASSERT_TRUE(Same(strided_masked.at[i], m.on.at[i] ? far : T(0)));
    ASSERT_TRUE(Same(gathered.at[i], indexed));
    ASSERT_TRUE(Same(gathered_masked.at[i], m.on.at[i] ? indexed : T(0)));
  }
  const auto even = tk::load_even<S, W>(m.p()), odd = tk::load_odd<S, W>(m.p());
  for (int i = 0; i < W; ++i) {
    ASSERT_TRUE(Same(even.at[i], m.Loaded(2 * i)) && Same(odd.at[i], m.Loaded(2 * i + 1)));
  }
  for (int start = 0; start < 16; ++start) {
    const auto moved = tk::load_unaligned<S, W>(m.p() + start);
    for (int i = 0; i < W; ++i) ASSERT_TRUE(Same(moved.at[i], m.Loaded(start + i))) << start;
  }
}

template <class S, int W>
void CheckStores(Memory<S, W> m) {
  const auto plain = tk::load<S, W>(m.p());
  const auto all = tk::broadcast<W>(true);
  tk::store<S, W>(m.q(), plain), m.ExpectStored("store", 1, false);
  tk::store_streaming<S, W>(m.q(), plain), m.ExpectStored("store_streaming", 1, false);
  tk::store_masked<S, W>(m.q(), plain, m.on), m.ExpectStored("store_masked", 1, true);
  tk::store_masked<S, W>(m.q(), plain, all), m.ExpectStored("store_masked of all", 1, false);
  tk::store_strided<S, W>(m.q(), 7, plain), m.ExpectStored("store_strided", 7, false);
  tk::store_strided_masked<S, W>(m.q(), int64_t(7), plain, m.on);
  m.ExpectStored("store_strided_masked", 7, true);
  tk::store_pairs<S, W>(m.q(), plain, plain);
  for (int i = 0; i < 2 * W; ++i) ASSERT_TRUE(Same(m.Stored(i), m.Loaded(i / 2))) << i;
  m.Clear();
}

// The first `left` lanes.
template <class S, int W>
void CheckTails(Memory<S, W> m) {
  using T = tk::Compute<S>;
  const auto plain = tk::load<S, W>(m.p());
  for (int left = 0; left <= W; ++left) {
    const auto first = tk::strided_tail<S, W>(m.p(), 7, left);
    const auto next = tk::load_tail<S, W>(m.p(), left);
    tk::store_tail<S, W>(m.q(), plain, left);
    for (int i = 0; i < W; ++i) {
      ASSERT_TRUE(Same(first.at[i], i < left ? m.Loaded(i * 7) : T(0)));
      ASSERT_TRUE(Same(next.at[i], i < left ? m.Loaded(i) : T(0)));
      ASSERT_TRUE(Same(m.Stored(i), i < left ? plain.at[i] : T(0)));
    }
    m.Clear();
  }
}

template <class S, int W>
void CheckScatters(Memory<S, W> m) {
  using T = tk::Compute<S>;
  const auto plain = tk::load<S, W>(m.p());
  const auto all = tk::broadcast<W>(true);
  const auto by_five = tk::mul(tk::iota<int, W>(0), tk::broadcast<W>(5));
  tk::scatter<S, W>(m.q(), by_five, plain), m.ExpectStored("scatter", 5, false);
  tk::scatter_masked<S, W>(m.q(), by_five, plain, m.on), m.ExpectStored("scatter_masked", 5, true);
  tk::scatter_add<S, W>(m.q(), by_five, plain, m.on), m.ExpectStored("scatter_add", 5, true);
  tk::scatter_add_run<S, W>(m.q(), plain, m.on), m.ExpectStored("scatter_add_run", 1, true);
  tk::scatter_add_run<S, W>(m.q(), plain, all), m.ExpectStored("scatter_add_run of all", 1, false);
  // All lanes at one place.
  const T one = T(1);
  tk::scatter_add<S, W>(m.q(), tk::broadcast<W>(int64_t(3)), tk::broadcast<W>(one), all);
  // Two bits of mantissa: 8 + 1 is 8.
  const T sum =
      std::is_same_v<S, bool> ? one : T(std::is_same_v<S, tk::float8_e5m2> ? std::min(W, 8) : W);
  ASSERT_EQ(m.Stored(3), sum);
  ASSERT_EQ(m.Stored(2), T(0));
  ASSERT_EQ(m.Stored(4), T(0));
}

template <class S, int W>
void CheckMemory() {
  const Memory<S, W> memory;
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

// --- index arithmetic and random numbers

TEST(IndexTest, DividesWithFloor) {
  for (int a = -9; a <= 9; ++a) {
    for (int b = -4; b <= 4; ++b) {
      if (b == 0) continue;
      ASSERT_EQ(tk::floor_div_index(a, b), tk_cpu::floor_div_index(a, b));
      ASSERT_EQ(tk::mod_index(a, int64_t(b)), tk_cpu::mod_index(a, b));
      ASSERT_EQ(tk::min_index(int64_t(a), b), std::min(a, b));
      ASSERT_EQ(tk::max_index(a, b), std::max(a, b));
    }
  }
  static_assert(sizeof(tk::floor_div_index(7, 2)) == 4 && sizeof(tk::mod_index(7, 2l)) == 8);
}

TEST(MaskTest, OneLaneIsEqual) {
  for (int step : {1, 3}) {
    for (int64_t distance : {int64_t(-1), int64_t(0), int64_t(3), int64_t(9), int64_t(1) << 32}) {
      const auto m = tk::equal_lane<4>(distance, step);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(m.at[i], distance == i * step);
    }
  }
}

TEST(MaskTest, OneLaneIsLess) {
  const tk::Vec<float, 4> x = {{1, 2, 3, 4}};
  for (int step : {1, 3}) {
    for (int64_t distance : {int64_t(-1), int64_t(0), int64_t(3), int64_t(9), int64_t(1) << 32}) {
      const auto y = tk::sub_at(x, distance, step, tk::broadcast<1>(0.5f));
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(y.at[i], x.at[i] - (distance == i * step ? 0.5f : 0.0f));
      }
    }
  }
}

// As comparing the numbers themselves.
template <int W>
void CheckComparison() {
  const auto seed = tk::broadcast<1>(int64_t(42)), stream = tk::broadcast<1>(int64_t(7));
  for (int64_t first : {int64_t(0), int64_t(1) << 34}) {
    const auto numbers = tk::philox_uniform_run<W>(seed, stream, first);
    for (uint32_t k : {0u, 1u, 0x19999au, 0x800000u, 0xffffffu}) {
      const auto least = tk::philox_at_least_run<W>(seed, stream, first, k << 8);
      for (int i = 0; i < W; ++i) {
        EXPECT_EQ(least.at[i], numbers.at[i] >= float(k) * 0x1p-24f);
        const auto own = uint32_t(numbers.at[i] * 0x1p24f) << 8;
        EXPECT_TRUE(tk::philox_at_least_run<W>(seed, stream, first, own).at[i]);
        if (own < 0xffffff00u) {
          EXPECT_FALSE(tk::philox_at_least_run<W>(seed, stream, first, own + 256).at[i]);
        }
      }
    }
  }
}
TEST(RandomTest, WordsCompareAsNumbers) {
  CheckComparison<1>();
  CheckComparison<8>();
}

template <int W>
void CheckRandom() {
  for (int64_t seed : {int64_t(0), int64_t(42), int64_t(-1), int64_t(0x123456789abcdef)}) {
    // Whole blocks, and vectors that begin within one.
    for (int64_t first :
         {int64_t(0), int64_t(1000), (int64_t(1) << 34) - 4, int64_t(6), int64_t(13)}) {
      const auto at = tk::iota<int64_t, W>(first);
      const auto uniform =
          tk::philox_uniform(tk::broadcast<W>(seed), tk::broadcast<W>(seed / 3), at);
      const auto normal = tk::philox_normal(tk::broadcast<W>(seed), tk::broadcast<W>(seed / 3), at);
      if (first % W == 0) {
        const auto key = tk::broadcast<1>(seed), stream = tk::broadcast<1>(seed / 3);
        const auto run = tk::philox_uniform_run<W>(key, stream, first);
        const auto normal_run = tk::philox_normal_run<W>(key, stream, first);
        for (int i = 0; i < W; ++i) {
          ASSERT_EQ(run.at[i], uniform.at[i]);
          ASSERT_EQ(normal_run.at[i], normal.at[i]);
        }
      }
      for (int i = 0; i < W; ++i) {
        const auto offset = CpuVec(first + i);
        const auto key = CpuVec(seed), stream = CpuVec(seed / 3);
        ASSERT_EQ(uniform.at[i], tk_cpu::get(tk_cpu::philox_uniform(key, stream, offset), 0));
        const float want = tk_cpu::get(tk_cpu::philox_normal(key, stream, offset), 0);
        ASSERT_NEAR(normal.at[i], want, 1e-6f * (1 + std::fabs(want)));
      }
    }
  }
}
TEST(RandomTest, NumbersAreTheVectors) {
  const auto vectors = ReadPhiloxVectors();
  ASSERT_EQ(vectors.words.size(), 3u);
  for (const auto& v : vectors.words) {
    tk::Philox<2> block;
    for (int i = 0; i < 4; ++i) block.word[i] = tk::broadcast<2>(v.counter[i]);
    block = tk::philox(block, v.key[0], v.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i].at[1], v.words[i]);
  }
  const auto of = [](int64_t x) { return tk::broadcast<2>(x); };
  for (const auto& v : vectors.uniform) {
    EXPECT_EQ(tk::philox_uniform(of(v.seed), of(v.stream), of(v.element)).at[1], v.value);
  }
  for (const auto& v : vectors.normal) {
    EXPECT_PRED2(IsNormal, tk::philox_normal(of(v.seed), of(v.stream), of(v.element)).at[1], v);
  }
}

TEST(RandomTest, NumbersAreTheCpus) {
  CheckRandom<1>();
  CheckRandom<2>();
  CheckRandom<8>();
}

// Three parts of 4, none and 3 blocks.
TEST(PartTest, BlocksBelongToTheirParts) {
  const int ends[] = {4, 4, 7}, parts[] = {0, 0, 0, 0, 2, 2, 2};
  for (int block = 0; block < 7; ++block) {
    EXPECT_EQ(tk::part_of(3, block, [&](int i) { return ends[i]; }), parts[block]);
  }
  EXPECT_EQ(tk::part_of(1, 0, [](int) { return 1; }), 0);
}

}  // namespace
