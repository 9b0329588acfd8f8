// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude's numbers, compiled for the host: every operation against the CPU prelude, lane
// by lane, the small floats bit by bit, memory accesses for every storage type and width.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "tests/unit/testing/cuda_on_host.h"
#include "tests/unit/testing/philox_vectors.h"
#include "tests/unit/testing/scalar_reference.h"

// What ops.def is written with.
using tensord::testing::Exact, tensord::testing::Rounded, tensord::testing::Takes,
    tensord::testing::Types, tensord::testing::Ulps;

namespace {

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
  std::vector<T> v;
  if constexpr (std::is_same_v<T, bool>) {
    return std::vector<T>{false, true};
  } else if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    v = {T(0),
         T(-0.0),
         T(1),
         T(-1),
         T(0.5),
         T(-0.5),
         T(1.5),
         T(2.5),
         T(-2.5),
         T(3),
         T(-3),
         T(7),
         T(1e-5),
         T(0.999),
         T(88),
         T(-88),
         T(1e30),
         Limits::infinity(),
         -Limits::infinity(),
         Limits::quiet_NaN(),
         Limits::min(),
         Limits::denorm_min(),
         T(120.25),
         T(-17.75)};
    for (int i = 0; i < 60; ++i) {
      v.push_back(T(std::ldexp(double(int64_t(random())), -60)));
      v.push_back(T(std::ldexp(double(int64_t(random())), int(random() % 40) - 80)));
    }
  } else {
    v = {T(0),
         T(1),
         T(2),
         T(3),
         T(7),
         T(-1),
         T(-2),
         T(-7),
         std::numeric_limits<T>::max(),
         std::numeric_limits<T>::min(),
         T(31),
         T(32),
         T(63),
         T(64),
         T(8),
         T(100)};
    for (int i = 0; i < 40; ++i) v.push_back(T(random() >> random() % 64));
  }
  return v;
}

// f and g on every pair of samples; f four lanes at once.
template <class T, class F, class G>
void ComparePairs(const char* name, F f, G g) {
  const std::vector<T> samples = Samples<T>();
  const size_t n = samples.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; j += 4) {
      tk::Vec<T, 4> a, b;
      for (int k = 0; k < 4; ++k) a.at[k] = samples[i], b.at[k] = samples[(j + k) % n];
      const auto got = f(a, b);
      for (int k = 0; k < 4; ++k) {
        const auto want = tk_cpu::get(g(CpuVec(a.at[k]), CpuVec(b.at[k])), 0);
        ASSERT_TRUE(Same(got.at[k], want)) << name << "(" << Text(a.at[k]) << ", " << Text(b.at[k])
                                           << ") is " << Text(got.at[k]) << ", not " << Text(want);
      }
    }
  }
}

// f and g on samples, as near as two libraries of functions are.
template <class T, int kArity, class F, class G>
void CompareNear(const char* name, F f, G g) {
  const double bound = sizeof(T) == 4 ? 1e-6 : 1e-14;
  const auto near = [&](T got, T want, const std::string& operands) {
    if ((std::isnan(got) && std::isnan(want)) || got == want) return;
    EXPECT_LE(std::fabs(double(got) - double(want)), bound * std::fabs(double(want)) + 1e-44)
        << name << "(" << operands << ")";
  };
  for (T x : Samples<T>()) {
    if constexpr (kArity == 1) {
      near(f(tk::broadcast<1>(x)).at[0], tk_cpu::get(g(CpuVec(x)), 0), Text(x));
    } else {
      for (T y : Samples<T>()) {
        near(f(tk::broadcast<1>(x), tk::broadcast<1>(y)).at[0],
             tk_cpu::get(g(CpuVec(x), CpuVec(y)), 0), Text(x) + ", " + Text(y));
      }
    }
  }
}

// An operation of both preludes.
template <class T, int kArity, class F, class G>
void CompareOperation(const std::string& name, bool is_exact, F f, G g) {
  if constexpr (std::is_floating_point_v<T>) {
    // Approximations of our own, and of two zeros either: the tests below.
    for (const char* own : {"sigmoid", "normal_cdf", "normal_pdf", "minimum", "maximum"}) {
      if (name == own) return;
    }
    if (!is_exact) return CompareNear<T, kArity>(name.c_str(), f, g);
  }
  const auto on_second = [](auto function) {
    return [function](auto a, auto b) {
      if constexpr (kArity == 1) {
        return function(b);
      } else {
        return function(a, b);
      }
    };
  };
  ComparePairs<T>(name.c_str(), on_second(f), on_second(g));
}

template <class T>
class OpsTest : public testing::Test {};
using ComputeTypes = testing::Types<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                                    uint32_t, int64_t, uint64_t, bool>;
TYPED_TEST_SUITE(OpsTest, ComputeTypes);

TYPED_TEST(OpsTest, OperationsEqualTheCpus) {
  using T = TypeParam;
#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance) \
  if constexpr (arity <= 2 && Takes<T>(Types::types)) {                            \
    CompareOperation<T, arity>(                                                    \
        #name, tolerance.IsExact(), [](auto... v) { return tk::name(v...); },      \
        [](auto... v) { return tk_cpu::name(v...); });                             \
  }
#include "compiler/loop_ir/ops.def"
}

TYPED_TEST(OpsTest, FmaRoundsOnce) {
  using T = TypeParam;
  if constexpr (!std::is_same_v<T, bool>) {
    ComparePairs<T>(
        "fma", [](auto a, auto b) { return tk::fma(a, b, a); },
        [](auto a, auto b) {
          if constexpr (std::is_floating_point_v<T>)  // the CPU rounds twice without FMA
            return CpuVec(std::fma(tk_cpu::get(a, 0), tk_cpu::get(b, 0), tk_cpu::get(a, 0)));
          else
            return tk_cpu::fma(a, b, a);
        });
  }
}

TYPED_TEST(OpsTest, ExtremesKeepNan) {
  using T = TypeParam;
  if constexpr (std::is_floating_point_v<T>) {
    // By value: of two zeros either may come back.
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
}

TYPED_TEST(OpsTest, CastsEqualTheCpus) {
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

template <class T>
double UlpError(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (T(want) == got) return 0;
  const T size = std::max(std::fabs(T(want)), std::numeric_limits<T>::min());
  return double(std::fabs(got - want) /
                (std::nextafter(size, std::numeric_limits<T>::infinity()) - size));
}

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

template <class S, int W>
void CheckMemory() {
  using T = tk::Compute<S>;
  std::mt19937_64 random(3);
  alignas(16) unsigned char from[sizeof(S) * 128], to[sizeof(S) * 128];
  for (unsigned char& byte : from) byte = uint8_t(random() % (std::is_same_v<S, bool> ? 2 : 100));
  std::memset(to, 0, sizeof(to));
  const S* const p = reinterpret_cast<const S*>(from);
  S* const q = reinterpret_cast<S*>(to);
  const auto element = [&](const S* base, int i) { return tk::load_scalar(base + i); };
  tk::Mask<W> on;
  tk::Vec<int64_t, W> index;
  for (int i = 0; i < W; ++i) on.at[i] = i % 3 != 1, index.at[i] = 5 * i % 41;
  const tk::Vec<T, W> plain = tk::load<S, W>(p), streaming = tk::load_streaming<S, W>(p),
                      constant = tk::load_const<S, W>(p), last = tk::load_evict_last<S, W>(p),
                      masked = tk::load_masked<S, W>(p, on),
                      strided = tk::strided<S, W>(p, int64_t(7)),
                      strided_masked = tk::strided_masked<S, W>(p, 7, on),
                      gathered = tk::gather<S, W>(p, index),
                      gathered_masked = tk::gather_masked<S, W>(p, index, on);
  for (int i = 0; i < W; ++i) {
    const T x = element(p, i);
    ASSERT_TRUE(Same(plain.at[i], x) && Same(streaming.at[i], x) && Same(constant.at[i], x));
    ASSERT_TRUE(Same(last.at[i], x));
    ASSERT_TRUE(Same(masked.at[i], on.at[i] ? x : T(0)));
    ASSERT_TRUE(Same(strided.at[i], element(p, 7 * i)));
    ASSERT_TRUE(Same(strided_masked.at[i], on.at[i] ? element(p, 7 * i) : T(0)));
    ASSERT_TRUE(Same(gathered.at[i], element(p, int(index.at[i]))));
    ASSERT_TRUE(Same(gathered_masked.at[i], on.at[i] ? element(p, int(index.at[i])) : T(0)));
  }
  // After each store: what was stored, and 0 around it.
  const auto expect = [&](const char* what, int stride, bool masked_store) {
    for (int i = 0; i < 128; ++i) {
      const bool stored = i % stride == 0 && i / stride < W;
      const bool here = stored && (!masked_store || on.at[i / stride]);
      const T want = here ? element(p, i / stride) : T(0);
      ASSERT_TRUE(Same(element(q, i), want)) << what << " W=" << W << " at " << i;
    }
    std::memset(to, 0, sizeof(to));
  };
  tk::store<S, W>(q, plain), expect("store", 1, false);
  tk::store_streaming<S, W>(q, plain), expect("store_streaming", 1, false);
  tk::store_masked<S, W>(q, plain, on), expect("store_masked", 1, true);
  tk::store_strided<S, W>(q, 7, plain), expect("store_strided", 7, false);
  tk::store_strided_masked<S, W>(q, int64_t(7), plain, on), expect("strided_masked", 7, true);
  for (int start = 0; start < 16; ++start) {
    const auto moved = tk::load_unaligned<S, W>(p + start);
    for (int i = 0; i < W; ++i) ASSERT_TRUE(Same(moved.at[i], element(p, start + i))) << start;
  }
  for (int left = 0; left <= W; ++left) {
    const auto first = tk::strided_tail<S, W>(p, 7, left);
    const auto next = tk::load_tail<S, W>(p, left);
    for (int i = 0; i < W; ++i) {
      ASSERT_TRUE(Same(first.at[i], i < left ? element(p, i * 7) : T(0)));
      ASSERT_TRUE(Same(next.at[i], i < left ? element(p, i) : T(0)));
    }
    std::memset(to, 0, sizeof(to));
    tk::store_tail<S, W>(q, plain, left);
    for (int i = 0; i < W; ++i) ASSERT_TRUE(Same(element(q, i), i < left ? plain.at[i] : T(0)));
    std::memset(to, 0, sizeof(to));
  }
  const auto by_five = tk::mul(tk::iota<int, W>(0), tk::broadcast<W>(5));
  tk::scatter<S, W>(q, by_five, plain), expect("scatter", 5, false);
  tk::scatter_masked<S, W>(q, by_five, plain, on), expect("scatter_masked", 5, true);
  tk::scatter_add<S, W>(q, by_five, plain, on), expect("scatter_add", 5, true);
  const auto all = tk::broadcast<W>(true);
  tk::scatter_add_run<S, W>(q, plain, on), expect("scatter_add_run", 1, true);
  tk::scatter_add_run<S, W>(q, plain, all), expect("scatter_add_run of all", 1, false);
  tk::store_masked<S, W>(q, plain, all), expect("store_masked of all", 1, false);
  const auto same = tk::broadcast<W>(int64_t(3));
  const T one = T(1);
  tk::scatter_add<S, W>(q, same, tk::broadcast<W>(one), tk::broadcast<W>(true));
  // Two bits of mantissa: 8 + 1 is 8.
  const T sum =
      std::is_same_v<S, bool> ? one : T(std::is_same_v<S, tk::float8_e5m2> ? std::min(W, 8) : W);
  ASSERT_EQ(element(q, 3), sum);
  ASSERT_EQ(element(q, 2), T(0));
  ASSERT_EQ(element(q, 4), T(0));
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
  const auto vectors = tensord::testing::ReadPhiloxVectors();
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
    EXPECT_PRED2(tensord::testing::IsNormal,
                 tk::philox_normal(of(v.seed), of(v.stream), of(v.element)).at[1], v);
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
