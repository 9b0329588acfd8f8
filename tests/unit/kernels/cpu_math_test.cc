// SPDX-License-Identifier: Apache-2.0
// Every scalar operation of the CPU prelude against its reference in compiler/loop_ir/ops.def, and
// what has no reference there. Built once per instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lift_special.h"
#include "tests/unit/kernels/operands.h"
#include "tests/unit/kernels/operation_reference.h"
#include "tests/unit/kernels/operation_tests.h"

namespace tensord::testing {
namespace cpu_math_test {

constexpr int W = tk::kLanes;

template <int kWidth>
struct VecsOf {
  template <class T>
  using Vec = tk::Vec<T, kWidth>;
};

// f over all operands.
template <int kWidth, class T, Result kResult, int kArity>
void CheckType(const char* name, FunctionOf<VecsOf<kWidth>::template Vec, T, kResult, kArity> f) {
  using First = FirstOperand<T, kResult>;
  using Got = ResultOf<T, kResult>;
  const Expected<T, Got>& expected = ExpectedOf<T, Got>(name);
  const size_t count = expected.results.size();
  const auto got = std::make_unique<Got[]>(count);
  for (size_t i = 0; i < count; i += kWidth) {
    First first[kWidth];
    T second[kWidth], third[kWidth];
    std::copy_n(expected.operands.first.begin() + i, kWidth, first);
    std::copy_n(expected.operands.second.begin() + i, kWidth, second);
    std::copy_n(expected.operands.third.begin() + i, kWidth, third);
    const auto results = ApplyFirst<kArity>(
        f, tk::load<First, kWidth>(first), tk::load<T, kWidth>(second), tk::load<T, kWidth>(third));
    for (int k = 0; k < kWidth; ++k) got[i + k] = tk::get(results, k);
  }
  expected.Check(got.get(), kWidth);
}

// For every type T of the tuple.
template <int kWidth, Result kResult, int kArity, class F, class... T>
void CheckOperation(const char* name, F f, std::tuple<T...>) {
  (CheckType<kWidth, T, kResult, kArity>(
       name, f.template operator()<FunctionOf<VecsOf<kWidth>::template Vec, T, kResult, kArity>>()),
   ...);
}

#ifdef __FMA__
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif
// Without the instruction fma rounds floats twice, which its tolerance does not allow for
// (Math.FmaWithoutTheInstruction).
constexpr Types TypesOf(std::string_view name, Types types) {
  return name == "fma" && !kHasFma ? Types::Integer : types;
}

// By tk::kLanes, and by 1. The prelude has no code of AVX-512 for a single lane: there it is what
// the tests of AVX2 have already, with the same FMA, and would only be compiled again.
//
// A vector of random numbers has one seed, so those are drawn one by one;
// Random.NumbersAreTheVectors has whole vectors.
const bool registered = [] {
#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance) \
  RegisterOperation<::testing::Test>(#name, [] {                                   \
    constexpr Types kTypes = TypesOf(#name, Types::types);                         \
    const auto f = TENSORD_OVERLOADS(tk::name);                                    \
    constexpr bool kCounts = kTypes == Types::Counter;                             \
    if constexpr (kCounts || !TK_AVX512) {                                         \
      CheckOperation<1, Result::result, arity>(#name, f, TypesIn<kTypes>());       \
    }                                                                              \
    if constexpr (!kCounts && W > 1) {                                             \
      CheckOperation<W, Result::result, arity>(#name, f, TypesIn<kTypes>());       \
    }                                                                              \
  });
#include "compiler/loop_ir/ops.def"
  return true;
}();

class Math : public ::testing::Test {};

// The cosine of huge numbers, which few reduce well. One of them among a vector's lanes is enough
// for the slow way, which is the more exact one.
template <class T>
void CheckHugeCosines() {
  double worst = 0;
  const std::vector<T> operands = OperandsOf<T>(1, Wide, 200000).first;
  for (size_t i = 0; i < operands.size(); i += W) {
    const auto cosines = tk::cos(tk::load<T, W>(&operands[i]));
    for (int k = 0; k < W; ++k) {
      const long double want = std::cos(static_cast<long double>(operands[i + k]));
      worst = std::max(worst, UlpError(tk::get(cosines, k), want));
    }
  }
  EXPECT_LE(worst, 1.2);
}
TEST_F(Math, CosineOfHugeNumbers) {
  CheckHugeCosines<float>();
  CheckHugeCosines<double>();
}

// Near a negative pole digamma is as exact as the distance to it, which the tolerance of ops.def
// allows for; between the poles it is exact.
TEST_F(Math, DigammaBetweenPoles) {
  for (double x = -20.37; x < 200; x += 0.0917) {
    const double want = ref::digamma<long double>(x);
    EXPECT_NEAR(tk::get(tk::digamma(tk::broadcast<W>(x)), 0), want,
                1e-13 * std::max(1.0, std::fabs(want)))
        << x;
  }
}

TEST_F(Math, ErfinvInvertsErf) {
  for (double y = -0.999; y < 1; y += 0.001) {
    const double x = tk::get(tk::erfinv(tk::broadcast<W>(y)), 0);
    EXPECT_NEAR(std::erf(x), y, 1e-15);
  }
  EXPECT_EQ(tk::scalar::erfinv(1), INFINITY);
  EXPECT_TRUE(std::isnan(tk::scalar::erfinv(1.5)));
}

// Also where a compiler could contract the last product of the exponential with what comes behind.
TEST_F(Math, AnExponentialThatOverflowsIsInfinityToWhatComesBehind) {
  volatile float most = INFINITY;
  const auto x = tk::broadcast<W>(float(most));
  EXPECT_TRUE(std::isnan(tk::get(tk::exp(x) - x, W - 1)));
  EXPECT_TRUE(std::isnan(tk::get(tk::exp2(x) - x, W - 1)));
  EXPECT_TRUE(std::isnan(tk::get(tk::expm1(x) - x, W - 1)));
}

template <class T, int N, Result kResult = Result::Same>
using Binary = FunctionOf<VecsOf<N>::template Vec, T, kResult, 2>;

// f of a and b in all of N lanes: the last one.
template <class T, int N>
T Two(Binary<T, N> f, T a, T b) {
  return tk::get(f(tk::broadcast<N>(a), tk::broadcast<N>(b)), N - 1);
}

TEST_F(Math, PowFloat) {
  const float special[] = {0,   -0.0f,  1,      -1,    0.5f,       -0.5f,      2,
                           -2,  3,      -3,     1e30f, -1e30f,     INFINITY,   -INFINITY,
                           NAN, 1e-40f, 1e-30f, 7.5f,  16777217.f, 0.99999994f};
  for (float a : special) {
    for (float b : special) {
      const float want = std::pow(double(a), double(b));
      const float got = Two<float, W>(tk::pow, a, b), one = Two<float, 1>(tk::pow, a, b);
      EXPECT_LE(UlpError(got, std::pow(static_cast<long double>(a), static_cast<long double>(b))),
                1)
          << a << " ^ " << b << " = " << got << ", not " << want;
      EXPECT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want)) << a << " ^ " << b;
      EXPECT_LE(UlpError(one, std::pow(static_cast<long double>(a), static_cast<long double>(b))),
                1);
    }
  }
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> base(-80, 80), exponent(-30, 30);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const float a = float(std::exp(base(random))), b = float(exponent(random));
    worst = std::max(worst,
                     UlpError(Two<float, W>(tk::pow, a, b),
                              std::pow(static_cast<long double>(a), static_cast<long double>(b))));
  }
  EXPECT_LE(worst, 1);
}

// Expected: torch.div(rounding_mode="floor") and torch.remainder.
TEST_F(Math, FloorDivAndModOfFloats) {
  const struct {
    float a, b, quotient, rest;
  } cases[] = {
      {5, -3, -2, -1}, {-5, 3, -2, 1},  {5, INFINITY, 0, 5}, {-5, INFINITY, -1, INFINITY},
      {7, 2, 3, 1},    {-7, -2, 3, -1}, {0, 3, 0, 0},        {1, 0.1f, 9, std::fmod(1.f, 0.1f)}};
  for (const auto& c : cases) {
    EXPECT_EQ((Two<float, W>(tk::floor_div, c.a, c.b)), c.quotient) << c.a << " // " << c.b;
    EXPECT_EQ((Two<float, W>(tk::mod, c.a, c.b)), c.rest) << c.a << " % " << c.b;
  }
  EXPECT_EQ((Two<float, W>(tk::floor_div, 1.f, 0.f)), INFINITY);
}

template <class T>
void CheckFmaInTwoRoundings() {
  const Operands<T> operands = OperandsOf<T>(3, Wide, 2000);
  for (size_t i = 0; i < operands.first.size(); ++i) {
    const T a = operands.first[i], b = operands.second[i], c = operands.third[i];
    const T got =
        tk::get(tk::fma(tk::broadcast<1>(a), tk::broadcast<1>(b), tk::broadcast<1>(c)), 0);
    const T product = a * b, want = product + c;
    ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
        << a << " * " << b << " + " << c << " is " << got << ", not " << want;
  }
}
TEST_F(Math, FmaWithoutTheInstruction) {
  if (kHasFma) GTEST_SKIP() << "fma is one instruction: Operation.fma";
  CheckFmaInTwoRoundings<float>();
  CheckFmaInTwoRoundings<double>();
}

// Holds the integers of all types.
using WideInteger = __int128;

// What the operations on integers of so many bits give before they wrap. Divisors are not 0.
namespace integer {
WideInteger trunc_div(WideInteger a, WideInteger b, int) { return a / b; }
WideInteger floor_div(WideInteger a, WideInteger b, int) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
WideInteger mod(WideInteger a, WideInteger b, int bits) { return a - floor_div(a, b, bits) * b; }
WideInteger fmod(WideInteger a, WideInteger b, int) { return a % b; }
WideInteger minimum(WideInteger a, WideInteger b, int) { return std::min(a, b); }
WideInteger maximum(WideInteger a, WideInteger b, int) { return std::max(a, b); }
WideInteger shift_left(WideInteger a, WideInteger b, int bits) {
  return b >= 0 && b < bits ? a << int(b) : 0;
}
WideInteger shift_right(WideInteger a, WideInteger b, int bits) {
  return b >= 0 && b < bits ? a >> int(b) : a < 0 ? -1 : 0;
}
WideInteger lt(WideInteger a, WideInteger b, int) { return a < b; }
WideInteger ge(WideInteger a, WideInteger b, int) { return a >= b; }
WideInteger eq(WideInteger a, WideInteger b, int) { return a == b; }
}  // namespace integer

void ExpectInteger(const char* name, WideInteger a, WideInteger b, WideInteger got,
                   WideInteger want) {
  EXPECT_TRUE(got == want) << name << "(" << int64_t(a) << ", " << int64_t(b) << ") is "
                           << int64_t(got) << ", not " << int64_t(want);
}

// In the first lane, in the last and in one alone.
template <class T, Result kResult>
void CheckIntegerFunction(const char* name, bool divides, Binary<T, W, kResult> f,
                          Binary<T, 1, kResult> g,
                          WideInteger (*reference)(WideInteger, WideInteger, int)) {
  for (T a : IntegerLimits<T>()) {
    for (T b : IntegerLimits<T>()) {
      const auto lanes = f(tk::broadcast<W>(a), tk::broadcast<W>(b));
      const auto got = tk::get(lanes, W - 1);
      ExpectInteger(name, a, b, tk::get(lanes, 0), got);
      ExpectInteger(name, a, b, tk::get(g(tk::broadcast<1>(a), tk::broadcast<1>(b)), 0), got);
      if (divides && b == 0) continue;
      ExpectInteger(name, a, b, got, ResultOf<T, kResult>(reference(a, b, sizeof(T) * 8)));
    }
  }
}

template <class T>
void CheckIntegers() {
  SCOPED_TRACE(::testing::Message()
               << (tk::kIsSigned<T> ? "signed, " : "unsigned, ") << sizeof(T) << " bytes");
#define CHECK_FUNCTION(name, result, divides) \
  CheckIntegerFunction<T, Result::result>(#name, divides, tk::name, tk::name, integer::name)
  CHECK_FUNCTION(trunc_div, Same, true);
  CHECK_FUNCTION(floor_div, Same, true);
  CHECK_FUNCTION(mod, Same, true);
  CHECK_FUNCTION(fmod, Same, true);
  CHECK_FUNCTION(minimum, Same, false);
  CHECK_FUNCTION(maximum, Same, false);
  CHECK_FUNCTION(shift_left, Same, false);
  CHECK_FUNCTION(shift_right, Same, false);
  CHECK_FUNCTION(lt, Bool, false);
  CHECK_FUNCTION(ge, Bool, false);
  CHECK_FUNCTION(eq, Bool, false);
#undef CHECK_FUNCTION
  for (T a : IntegerLimits<T>()) {
    ExpectInteger("trunc_div", a, 0, Two<T, W>(tk::trunc_div, a, T(0)), 0);
    const T floor = Two<T, W>(tk::floor_div, a, T(0));
    EXPECT_TRUE(floor == 0 || floor == T(-1));
  }
  ExpectInteger("pow", 3, 4, Two<T, W>(tk::pow, T(3), T(4)), 81);
  if constexpr (tk::kIsSigned<T>) {
    ExpectInteger("pow", -1, -3, Two<T, W>(tk::pow, T(-1), T(-3)), -1);
    ExpectInteger("abs", -5, 0, tk::get(tk::abs(tk::broadcast<W>(T(-5))), 0), 5);
  }
}
TEST_F(Math, Integers) {
  CheckIntegers<int8_t>();
  CheckIntegers<int16_t>();
  CheckIntegers<int32_t>();
  CheckIntegers<int64_t>();
  CheckIntegers<uint8_t>();
  CheckIntegers<uint16_t>();
  CheckIntegers<uint32_t>();
  CheckIntegers<uint64_t>();
}

}  // namespace cpu_math_test
}  // namespace tensord::testing
