// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude's numbers, compiled for the host: every operation against the CPU prelude, lane
// by lane.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/unit/kernels/operands.h"
#include "tests/unit/kernels/operation_tests.h"
#include "tests/unit/kernels/samples.h"
#include "tests/unit/testing/philox_vectors.h"
#include "tests/unit/testing/scalar_reference.h"
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

// What ops.def is written with.
using namespace tensord::testing;

template <class T>
using CpuVec = tk_cpu::Vec<T, 1>;
template <class T>
CpuVec<T> OnCpu(T x) {
  return tk_cpu::broadcast<1>(x);
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

// Operands of vectors of four. Lanes differ in the last of kArity operands alone, so that those of
// random numbers share a seed.
template <class T, class First>
struct FourOperands {
  tk::Vec<First, 4> first;
  tk::Vec<T, 4> second, third;
};
template <class T, class First>
std::vector<FourOperands<T, First>> FourOperandsOf(int arity) {
  const std::vector<T> samples = Samples<T>();
  const size_t n = samples.size();
  std::vector<FourOperands<T, First>> all;
  for (size_t i = 0; i < (arity > 1 ? n : 1); ++i) {
    for (size_t j = 0; j < n; j += 4) {
      FourOperands<T, First>& operands = all.emplace_back();
      for (int k = 0; k < 4; ++k) {
        const T changing = samples[(j + k) % n];
        operands.first.at[k] = static_cast<First>(arity == 1 ? changing : samples[i]);
        operands.second.at[k] = arity == 2 ? changing : samples[(i + j / 4) % n];
        operands.third.at[k] = changing;
      }
    }
  }
  return all;
}

// Whether four results are the CPU's.
template <class T, class First, class Got>
bool ExpectSame(const char* name, const Tolerance& tolerance,
                const FourOperands<T, First>& operands, const Got* got, const Got* want) {
  // Of two zeros either may come back: MathTest.ExtremesKeepNan.
  const std::string_view text = name;
  const bool exact = tolerance.IsExact() && text != "minimum" && text != "maximum";
  for (int k = 0; k < 4; ++k) {
    bool equal = Same(got[k], want[k]);
    if constexpr (std::is_floating_point_v<Got>) {
      equal = equal || (!exact && IsNear(got[k], want[k], tolerance));
    }
    if (equal) continue;
    ADD_FAILURE() << name << " of " << Text(operands.first.at[k]) << ", "
                  << Text(operands.second.at[k]) << ", " << Text(operands.third.at[k]) << " is "
                  << Text(got[k]) << ", not " << Text(want[k]) << " in " << sizeof(T) << " bytes";
    return false;
  }
  return true;
}

template <class T>
using CudaVec = tk::Vec<T, 4>;

// f of this prelude, and g, which is the CPU's, one lane at a time.
template <class T, Result kResult, int kArity>
void CompareType(const char* name, const Tolerance& tolerance,
                 FunctionOf<CudaVec, T, kResult, kArity> f,
                 FunctionOf<CpuVec, T, kResult, kArity> g) {
  using First = FirstOperand<T, kResult>;
  using Got = ResultOf<T, kResult>;
  for (const FourOperands<T, First>& at : FourOperandsOf<T, First>(kArity)) {
    const tk::Vec<Got, 4> got = ApplyFirst<kArity>(f, at.first, at.second, at.third);
    Got want[4];
    for (int k = 0; k < 4; ++k) {
      want[k] = tk_cpu::get(ApplyFirst<kArity>(g, OnCpu(at.first.at[k]), OnCpu(at.second.at[k]),
                                               OnCpu(at.third.at[k])),
                            0);
    }
    if (!ExpectSame(name, tolerance, at, got.at, want)) return;
  }
}

template <Result kResult, int kArity, class F, class G, class... T>
void CompareOperation(const char* name, const Tolerance& tolerance, F f, G g, std::tuple<T...>) {
  (CompareType<T, kResult, kArity>(name, tolerance,
                                   f.template operator()<FunctionOf<CudaVec, T, kResult, kArity>>(),
                                   g.template operator()<FunctionOf<CpuVec, T, kResult, kArity>>()),
   ...);
}

// Without FMA the CPU rounds floats twice: MathTest.FmaRoundsOnce.
constexpr Types TypesOf(std::string_view name, Types types) {
  return name == "fma" ? Types::Integer : types;
}

const bool registered = [] {
#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance)         \
  RegisterOperation<testing::Test>(#name, [] {                                             \
    CompareOperation<Result::result, arity>(#name, tolerance, TENSORD_OVERLOADS(tk::name), \
                                            TENSORD_OVERLOADS(tk_cpu::name),               \
                                            TypesIn<TypesOf(#name, Types::types)>());      \
  });
#include "compiler/loop_ir/ops.def"
  return true;
}();

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

template <class To>
void ExpectCast(To got, To want, const std::string& from) {
  ASSERT_TRUE(Same(got, want)) << from << " is " << Text(got) << ", not " << Text(want);
}
TYPED_TEST(CastTest, CastsEqualTheCpus) {
  using T = TypeParam;
  const auto cast_to = []<class To>(To) {
    for (T x : Samples<T>()) {
      // A float beyond the integers: some integer, and on the host undefined.
      if (std::is_floating_point_v<T> && !(std::fabs(double(x)) < 2e9)) continue;
      ExpectCast(tk::cast<To>(tk::broadcast<2>(x)).at[1],
                 tk_cpu::get(tk_cpu::cast<To>(OnCpu(x)), 0), Text(x));
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
        const auto offset = OnCpu(first + i);
        const auto key = OnCpu(seed), stream = OnCpu(seed / 3);
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
