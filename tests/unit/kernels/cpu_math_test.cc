// SPDX-License-Identifier: Apache-2.0
// Every scalar operation of the CPU prelude against its reference in compiler/loop_ir/ops.def, and
// what has no reference there. Built once per instruction set; the lane count is tk::kLanes, and 1
// everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lift_special.h"
#include "tests/unit/kernels/cpu_isa.h"
#include "tests/unit/kernels/operands.h"
#include "tests/unit/kernels/operation_reference.h"

namespace tensord::testing {
namespace {

constexpr int W = tk::kLanes;

// f of kArity vectors of kWidth lanes, over all operands.
template <int kWidth, class T, Result kResult, int kArity, class F>
void CheckType(const char* name, F f) {
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
    static_assert(std::is_same_v<decltype(tk::get(results, 0)), Got>);
    for (int k = 0; k < kWidth; ++k) got[i + k] = tk::get(results, k);
  }
  expected.Check(got.get(), kWidth);
}

// In every type that the operation takes.
template <int kWidth, Types kTypes, Result kResult, int kArity, class F>
void CheckOperation(const char* name, F f) {
  ForEachType<kTypes>([&]<class T>() { CheckType<kWidth, T, kResult, kArity>(name, f); });
}

class Operation : public kernels_cpu::IsaTest {};

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

// A vector of random numbers has one seed, so those are drawn one by one;
// Random.NumbersAreTheVectors has whole vectors.
#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance) \
  TEST_F(Operation, name) {                                                        \
    constexpr Types kTypes = TypesOf(#name, Types::types);                         \
    const auto f = [](auto... v) { return tk::name(v...); };                       \
    CheckOperation<1, kTypes, Result::result, arity>(#name, f);                    \
    if constexpr (W > 1 && kTypes != Types::Counter) {                             \
      CheckOperation<W, kTypes, Result::result, arity>(#name, f);                  \
    }                                                                              \
  }
#include "compiler/loop_ir/ops.def"

class Math : public kernels_cpu::IsaTest {};

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

template <class T, int N, class F>
T Two(F f, T a, T b) {
  return tk::get(f(tk::broadcast<N>(a), tk::broadcast<N>(b)), N - 1);
}

TEST_F(Math, PowFloat) {
  auto pow = [](auto a, auto b) { return tk::pow(a, b); };
  const float special[] = {0,   -0.0f,  1,      -1,    0.5f,       -0.5f,      2,
                           -2,  3,      -3,     1e30f, -1e30f,     INFINITY,   -INFINITY,
                           NAN, 1e-40f, 1e-30f, 7.5f,  16777217.f, 0.99999994f};
  for (float a : special) {
    for (float b : special) {
      const float want = std::pow(double(a), double(b));
      const float got = Two<float, W>(pow, a, b), one = Two<float, 1>(pow, a, b);
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
                     UlpError(Two<float, W>(pow, a, b),
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
    EXPECT_EQ((Two<float, W>([](auto x, auto y) { return tk::floor_div(x, y); }, c.a, c.b)),
              c.quotient)
        << c.a << " // " << c.b;
    EXPECT_EQ((Two<float, W>([](auto x, auto y) { return tk::mod(x, y); }, c.a, c.b)), c.rest)
        << c.a << " % " << c.b;
  }
  EXPECT_EQ((Two<float, W>([](auto x, auto y) { return tk::floor_div(x, y); }, 1.f, 0.f)),
            INFINITY);
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

template <class T>
void CheckIntegers() {
  const std::vector<T> values = IntegerLimits<T>();
  for (T a : values) {
    for (T b : values) {
      const auto two = [&](auto f) {
        const T x = Two<T, W>(f, a, b);
        EXPECT_EQ(x, (Two<T, 1>(f, a, b)));
        return x;
      };
      const T q = two([](auto x, auto y) { return tk::trunc_div(x, y); });
      const T f = two([](auto x, auto y) { return tk::floor_div(x, y); });
      const T m = two([](auto x, auto y) { return tk::mod(x, y); });
      const T r = two([](auto x, auto y) { return tk::fmod(x, y); });
      if (b == 0) {
        EXPECT_TRUE(q == 0 && (f == 0 || f == T(-1)));
      } else {
        const __int128 x = a, y = b;
        const __int128 floor = x / y - (x % y != 0 && (x < 0) != (y < 0));
        EXPECT_EQ(q, T(x / y)) << int64_t(a) << " / " << int64_t(b);
        EXPECT_EQ(r, T(x % y));
        EXPECT_EQ(f, T(floor)) << int64_t(a) << " // " << int64_t(b) << " in " << sizeof(T)
                               << (tk::kIsSigned<T> ? " signed" : " unsigned") << " bytes";
        EXPECT_EQ(m, T(x - floor * y));
      }
      EXPECT_EQ(two([](auto x, auto y) { return tk::minimum(x, y); }), std::min(a, b));
      EXPECT_EQ(two([](auto x, auto y) { return tk::maximum(x, y); }), std::max(a, b));
      const bool fits = b >= 0 && uint64_t(b) < sizeof(T) * 8;
      EXPECT_EQ(two([](auto x, auto y) { return tk::shift_left(x, y); }),
                fits ? T(uint64_t(a) << b) : T(0));
      EXPECT_EQ(two([](auto x, auto y) { return tk::shift_right(x, y); }),
                fits ? T(a >> b) : T(a < 0 ? -1 : 0));
      EXPECT_EQ((tk::get(tk::lt(tk::broadcast<W>(a), tk::broadcast<W>(b)), W - 1)), a < b);
      EXPECT_EQ((tk::get(tk::ge(tk::broadcast<W>(a), tk::broadcast<W>(b)), 0)), a >= b);
      EXPECT_EQ((tk::get(tk::eq(tk::broadcast<W>(a), tk::broadcast<W>(b)), 0)), a == b);
    }
  }
  EXPECT_EQ((Two<T, W>([](auto x, auto y) { return tk::pow(x, y); }, T(3), T(4))), T(81));
  if constexpr (tk::kIsSigned<T>) {
    EXPECT_EQ((Two<T, W>([](auto x, auto y) { return tk::pow(x, y); }, T(-1), T(-3))), T(-1));
    EXPECT_EQ(tk::get(tk::abs(tk::broadcast<W>(T(-5))), 0), T(5));
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

}  // namespace
}  // namespace tensord::testing
