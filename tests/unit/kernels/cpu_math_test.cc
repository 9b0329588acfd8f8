// Every elementary function of the CPU prelude against libm in higher precision, in units in the
// last place of the float or double result, over wide ranges and the special values. Built once per
// instruction set; the lane count is tk::kLanes, and 1 everywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "tests/unit/kernels/cpu_isa.h"

namespace {

constexpr int W = tk::kLanes;

// A few passing a boundary into subnormals may be flushed: results below `flush` are compared with
// that absolute bound.
template <class T>
struct Case {
  const char* name;
  std::function<void(const T*, T*)> vector, scalar;
  long double (*reference)(long double);
  double lo, hi;  // |x| is drawn log-uniformly and uniformly from this range, with both signs
  double ulps;
  double flush = 0;
};

template <class T>
double UlpError(T got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  const T rounded = T(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // The largest finite number and infinity are neighbours.
    const T top = std::numeric_limits<T>::max();
    return std::fabs(got) >= top * T(0.9999999) && std::fabs(rounded) >= top * T(0.9999999) ? 1
                                                                                            : 1e30;
  }
  int exponent;
  std::frexp(std::fabs(want), &exponent);
  const int least = std::numeric_limits<T>::min_exponent;
  exponent = std::max(exponent, least);
  return double(std::fabs(got - want) /
                std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

template <class T>
std::vector<T> Inputs(double lo, double hi) {
  std::mt19937_64 random(7);
  std::vector<T> v = {T(0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      T(0.5),
                      T(2),
                      std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity(),
                      std::numeric_limits<T>::quiet_NaN(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::max(),
                      std::numeric_limits<T>::lowest()};
  for (T x :
       {T(1), T(0.625), T(0.921875), T(0.75), T(1.5), T(4), T(87), T(88.72), T(-87.3), T(-103.9),
        T(128), T(-149), T(3.14159265), T(1.57079633), T(1e-30), T(1e-5), T(48000)}) {
    for (T y : {x, -x, std::nextafter(x, T(1e30)), std::nextafter(x, T(-1e30))}) v.push_back(y);
  }
  std::uniform_real_distribution<double> uniform(-hi, hi), logarithm(std::log(lo), std::log(hi));
  for (int i = 0; i < 100000; ++i) {
    v.push_back(T(uniform(random)));
    v.push_back(T(std::exp(logarithm(random)) * (i & 1 ? -1 : 1)));
  }
  while (v.size() % 16) v.push_back(T(0));
  return v;
}

template <class T>
void Check(const Case<T>& c) {
  const std::vector<T> inputs = Inputs<T>(c.lo, c.hi);
  for (bool vector : {true, false}) {
    const int lanes = vector ? W : 1;
    double worst = 0;
    T at = 0, gave = 0;
    for (size_t i = 0; i < inputs.size(); i += lanes) {
      T out[16];
      (vector ? c.vector : c.scalar)(&inputs[i], out);
      for (int k = 0; k < lanes; ++k) {
        const T x = inputs[i + k];
        const long double want = c.reference(x);
        if (c.flush > 0 && std::fabs(want) < c.flush && std::fabs(out[k]) <= c.flush) continue;
        const double error = UlpError(out[k], want);
        if (!(error <= worst)) worst = error, at = x, gave = out[k];
      }
    }
    EXPECT_LE(worst, c.ulps) << c.name << " lanes " << lanes << " at " << at << ": " << gave
                             << ", not " << double(c.reference(at));
    testing::Test::RecordProperty(std::string(c.name) + (vector ? "_vector" : "_scalar"),
                                  std::to_string(worst));
    if (getenv("TENSORD_SHOW_ULPS"))
      printf("%-12s W=%-2d %.3f ulp at %g\n", c.name, lanes, worst, double(at));
  }
}

template <class T, int N, class F>
auto Apply(F f) {
  return [f](const T* in, T* out) { tk::store<T, N>(out, f(tk::load<T, N>(in))); };
}
#define TK_CASE(T, name, reference, ...)                                    \
  Case<T> {                                                                 \
    #name, Apply<T, W>([](auto x) { return tk::name(x); }),                 \
        Apply<T, 1>([](auto x) { return tk::name(x); }),                    \
        [](long double x) -> long double { return reference; }, __VA_ARGS__ \
  }

long double Psi(long double x);

template <class T>
std::vector<Case<T>> Cases() {
  constexpr bool f = sizeof(T) == 4;
  const double big = f ? 3e38 : 1e300, tiny = f ? 1e-40 : 1e-310;
  const double range = f ? 110 : 750;
  return {
      TK_CASE(T, exp, std::exp(x), 1e-30, range, 1.2),
      TK_CASE(T, exp2, std::exp2(x), 1e-30, f ? 160. : 1100., 1.2),
      TK_CASE(T, expm1, std::expm1(x), 1e-30, range, 2),
      TK_CASE(T, log, std::log(x), tiny, big, 1),
      TK_CASE(T, log, std::log(x), 0.5, 2, 1),
      TK_CASE(T, log2, std::log2(x), tiny, big, 2),
      TK_CASE(T, log2, std::log2(x), 0.5, 2, 2),
      TK_CASE(T, log10, std::log10(x), tiny, big, 2.1),
      TK_CASE(T, log1p, std::log1p(x), tiny, big, 1.2),
      TK_CASE(T, log1p, std::log1p(x), 1e-7, 1, 1.2),
      TK_CASE(T, sin, std::sin(x), tiny, 50000, 1.6),
      TK_CASE(T, sin, std::sin(x), tiny, 10, 1.6),
      TK_CASE(T, cos, std::cos(x), tiny, 50000, 1.6),
      TK_CASE(T, cos, std::cos(x), tiny, big, 1.2),
      TK_CASE(T, tan, std::tan(x), tiny, 50000, 1.3),
      TK_CASE(T, tanh, std::tanh(x), tiny, 20, 2.3),
      TK_CASE(T, erf, std::erf(x), 1e-30, 6, 2.2),
      TK_CASE(T, erfc, std::erfc(x), 1e-30, f ? 9. : 26., f ? 4.1 : 5., f ? 1.2e-38 : 0),
      TK_CASE(T, sigmoid, 1 / (1 + std::exp(-x)), 1e-30, f ? 87. : 700., 2.7, f ? 1.2e-38 : 1e-300),
      TK_CASE(T, rsqrt, x == 0 ? std::copysign(INFINITY, x) : 1 / std::sqrt(x), tiny, big, 1.6),
      TK_CASE(T, sqrt, std::sqrt(x), tiny, big, 0.51),
      TK_CASE(T, reciprocal, 1 / x, f ? 1e-37 : 1e-300, big, 0.51),
      TK_CASE(T, asin, std::asin(x), tiny, 1, 1.2),
      TK_CASE(T, acos, std::acos(x), tiny, 1, 1.2),
      TK_CASE(T, atan, std::atan(x), tiny, big, 1.2),
      TK_CASE(T, sinh, std::sinh(x), tiny, f ? 88. : 700., 3),
      TK_CASE(T, cosh, std::cosh(x), tiny, f ? 88. : 700., 3),
      TK_CASE(T, asinh, std::asinh(x), tiny, big, 3),
      TK_CASE(T, acosh, std::acosh(x), 1, big, 3),
      TK_CASE(T, atanh, std::atanh(x), tiny, 1, 3),
      TK_CASE(T, lgamma, std::lgamma(x), 0.1, f ? 1e30 : 1e300, f ? 1. : 1e6),
      TK_CASE(T, floor, std::floor(x), 1e-3, 1e9, 0),
      TK_CASE(T, ceil, std::ceil(x), 1e-3, 1e9, 0),
      TK_CASE(T, trunc, std::trunc(x), 1e-3, 1e9, 0),
      TK_CASE(T, round, std::nearbyint(x), 1e-3, 1e3, 0),
      TK_CASE(T, abs, std::fabs(x), tiny, big, 0),
      TK_CASE(T, neg, -x, tiny, big, 0),
      TK_CASE(T, relu, x < 0 ? 0.0L : x, tiny, big, 0),
      TK_CASE(T, sign, (x > 0) - (x < 0), tiny, big, 0),
  };
}

// Psi in long double, by the same asymptotic series from 25 upwards.
long double Psi(long double x) {
  if (std::isnan(x) || x == -INFINITY) return NAN;
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0 && std::trunc(x) == x) return NAN;
  long double y = 0;
  const long double pi = 3.14159265358979323846264338L;
  if (x < 0) {
    y = -pi / std::tan(pi * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 25; x += 1) y -= 1 / x;
  const long double z = 1 / (x * x);
  return y + std::log(x) - 0.5L / x -
         z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z / 240)));
}

class Math : public kernels_cpu::IsaTest {};

TEST_F(Math, FloatFunctions) {
  for (const auto& c : Cases<float>()) Check(c);
}
TEST_F(Math, DoubleFunctions) {
  for (const auto& c : Cases<double>()) Check(c);
}

TEST_F(Math, NormalDistribution) {
  for (double x = -9; x < 9; x += 0.0037) {
    const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double pdf = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    const double cdf_float = 0.5 * std::erfc(-double(float(x)) / std::sqrt(2.0));
    EXPECT_NEAR(tk::get(tk::normal_cdf(tk::broadcast<W>(x)), 0), cdf, 1e-15);
    EXPECT_NEAR(tk::get(tk::normal_cdf(tk::broadcast<W>(float(x))), 0), cdf_float, 1.5e-7);
    EXPECT_NEAR(tk::get(tk::normal_pdf(tk::broadcast<W>(x)), 0), pdf, 1e-14 * pdf);
    EXPECT_NEAR(tk::get(tk::normal_pdf(tk::broadcast<W>(float(x))), 0), pdf, 1e-5 * pdf);
  }
}

// Near its negative poles digamma is as exact as the distance to the pole.
TEST_F(Math, Digamma) {
  for (double x = -20.37; x < 200; x += 0.0917) {
    const double want = double(Psi(x)), bound = 1e-13 * std::max(1.0, std::fabs(want));
    EXPECT_NEAR(tk::get(tk::digamma(tk::broadcast<W>(x)), 0), want, bound) << x;
    EXPECT_NEAR(tk::get(tk::digamma(tk::broadcast<W>(float(x))), 0), double(Psi(float(x))),
                1e-6 * std::max(1.0, std::fabs(want)));
  }
  EXPECT_EQ(tk::scalar::digamma(0.0), -INFINITY);
  EXPECT_TRUE(std::isnan(tk::scalar::digamma(-3.0)));
}

TEST_F(Math, ErfinvInvertsErf) {
  for (double y = -0.999; y < 1; y += 0.001) {
    const double x = tk::get(tk::erfinv(tk::broadcast<W>(y)), 0);
    EXPECT_NEAR(std::erf(x), y, 1e-15);
    const float xf = tk::get(tk::erfinv(tk::broadcast<W>(float(y))), 0);
    EXPECT_NEAR(xf, tk::scalar::erfinv(float(y)), 1e-6 * std::fabs(xf));
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

TEST_F(Math, TwoArgumentFunctions) {
  const float values[] = {0,     -0.0f,    1,         -1,  2.5f, -2.5f, 1e-20f,
                          3e38f, INFINITY, -INFINITY, NAN, 7,    -7,    0.1f};
  for (float a : values) {
    for (float b : values) {
#define TK_TWO(name, want, ulps)                                                                \
  EXPECT_LE(UlpError(Two<float, W>([](auto x, auto y) { return tk::name(x, y); }, a, b), want), \
            ulps)                                                                               \
      << #name << "(" << a << ", " << b << ")";                                                 \
  EXPECT_LE(UlpError(Two<float, 1>([](auto x, auto y) { return tk::name(x, y); }, a, b), want), \
            ulps)                                                                               \
      << #name << "(" << a << ", " << b << ") at one lane";
      TK_TWO(atan2, std::atan2(double(a), double(b)), 1)
      TK_TWO(hypot, std::hypot(double(a), double(b)), 1)
      TK_TWO(nextafter, std::nextafter(a, b), 0)
      TK_TWO(fmod, std::fmod(a, b), 0)
      TK_TWO(copysign, std::copysign(a, b), 0)
      TK_TWO(minimum, std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b), 0)
      TK_TWO(maximum, std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b), 0)
      TK_TWO(div, a / b, 0)
#undef TK_TWO
    }
  }
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
void CheckIntegers() {
  std::vector<T> values = {T(0),
                           T(1),
                           T(2),
                           T(3),
                           T(7),
                           T(-1),
                           T(-2),
                           T(-7),
                           tk::lowest<T>(),
                           tk::highest<T>(),
                           T(100),
                           T(tk::lowest<T>() + 1)};
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
