// SPDX-License-Identifier: Apache-2.0
// Reductions, their running states, and random numbers.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "tests/unit/testing/philox_vectors.h"

using tensord::testing::IsNormal;
using tensord::testing::PhiloxVectors;
using tensord::testing::ReadPhiloxVectors;

namespace cpu_reduce_test {

constexpr int W = tk::kLanes;
class Reduce : public testing::Test {};
class Random : public testing::Test {};

template <class T>
void CheckReductions() {
  const auto v = tk::iota<T, W>(T(1));
  T sum = 0, product = 1;
  for (int i = 1; i <= W; ++i) sum = T(sum + i), product = T(product * T(i));
  EXPECT_EQ(tk::reduce_sum(v), sum);
  EXPECT_NEAR(double(tk::reduce_prod(v)), double(product), 1e-6 * std::fabs(double(product)));
  EXPECT_EQ(tk::reduce_min(v), T(1));
  EXPECT_EQ(tk::reduce_max(v), T(W));
}
TEST_F(Reduce, SumProductAndExtremes) {
  CheckReductions<float>();
  CheckReductions<double>();
  CheckReductions<int8_t>();
  CheckReductions<uint8_t>();
  CheckReductions<int16_t>();
  CheckReductions<int32_t>();
  CheckReductions<int64_t>();
}

TEST_F(Reduce, NanWins) {
  for (int at = 0; at < W; ++at) {
    float a[W];
    for (int i = 0; i < W; ++i) a[i] = i == at ? NAN : float(i);
    EXPECT_TRUE(std::isnan(tk::reduce_max(tk::load<float, W>(a))));
    EXPECT_TRUE(std::isnan(tk::reduce_min(tk::load<float, W>(a))));
  }
}

TEST_F(Reduce, AnyAndAll) {
  const auto none = tk::broadcast<W>(false);
  EXPECT_FALSE(tk::reduce_any(none));
  EXPECT_TRUE(tk::reduce_all(~none));
  EXPECT_TRUE(tk::reduce_any(tk::mask_first<W>(1)));
  EXPECT_EQ(tk::reduce_all(tk::mask_first<W>(1)), W == 1);
}

// ---- Prefixes

template <class T, class V, class F, class G>
void CheckScan(V scan, F vector, G number) {
  T in[W], total = T(3);
  for (int i = 0; i < W; ++i) in[i] = T(i * 5 % 7 + 1);
  tk::Vec<T, 1> before = tk::broadcast<1>(total);
  const auto prefixes = scan(before, tk::load<T, W>(in), vector);
  for (int i = 0; i < W; ++i) {
    total = number(total, in[i]);
    EXPECT_EQ(tk::get(prefixes, i), total) << "lane " << i;
  }
  EXPECT_EQ(tk::get(before, 0), total);
}
template <class T, class F, class G>
void CheckBothScans(F vector, G number) {
  CheckScan<T>([](auto& before, auto v, auto f) { return tk::scan(before, v, f); }, vector, number);
  CheckScan<T>([](auto& before, auto v, auto f) { return tk::scan_in_order(before, v, f); }, vector,
               number);
}
template <class T>
void CheckScans() {
  CheckBothScans<T>([](auto a, auto b) { return tk::add(a, b); },
                    [](T a, T b) { return T(a + b); });
  CheckBothScans<T>([](auto a, auto b) { return tk::maximum(a, b); },
                    [](T a, T b) { return a > b ? a : b; });
  CheckBothScans<T>([](auto a, auto b) { return tk::minimum(a, b); },
                    [](T a, T b) { return a < b ? a : b; });
  // What stands first matters: of two the second.
  CheckBothScans<T>([](auto, auto b) { return b; }, [](T, T b) { return b; });
  CheckBothScans<T>([](auto a, auto) { return a; }, [](T a, T) { return a; });
}
TEST_F(Reduce, PrefixesOfAllLanes) {
  CheckScans<float>();
  CheckScans<double>();
  CheckScans<int8_t>();
  CheckScans<int32_t>();
  CheckScans<int64_t>();
}

TEST_F(Reduce, PrefixesOfExtremesKnowNan) {
  for (int at = 0; at < W; ++at) {
    for (const float start : {-5.0f, 3.0f, 50.0f, NAN}) {
      float in[W], most = start;
      for (int i = 0; i < W; ++i) in[i] = i == at ? NAN : float(i * 5 % 7);
      auto before = tk::broadcast<1>(start);
      const auto prefixes = tk::scan_extreme(before, tk::load<float, W>(in),
                                             [](auto a, auto b) { return tk::maximum(a, b); });
      for (int i = 0; i < W; ++i) {
        if (!std::isnan(most)) most = std::isnan(in[i]) ? NAN : std::fmax(most, in[i]);
        const float got = tk::get(prefixes, i);
        EXPECT_TRUE(got == most || (std::isnan(got) && std::isnan(most))) << i << " of " << at;
      }
      EXPECT_TRUE(std::isnan(tk::get(before, 0)));
    }
  }
}

// What overflows, or becomes 0, one by one and nothing else does.
TEST_F(Reduce, PrefixesOfDoublesAreThoseOneByOne) {
  const std::vector<double> large = {0,      -1e308, 1e308, 1e308, 1e300,
                                     1e-300, 1e-200, -2,    1,     INFINITY};
  for (size_t start = 0; start < large.size(); ++start) {
    for (size_t step = 0; step < large.size(); ++step) {
      double in[W];
      for (int i = 0; i < W; ++i) in[i] = i % 3 == 2 ? 1 : large[(start + i * step) % large.size()];
      auto sum = tk::broadcast<1>(large[start]), product = sum;
      const auto sums = tk::scan_sums(sum, tk::load<double, W>(in));
      const auto products = tk::scan_products(product, tk::load<double, W>(in));
      double s = large[start], p = s;
      // `size`: of the largest number that was rounded.
      const auto expect = [](double got, double wanted, double size) {
        const bool both_nan = std::isnan(got) && std::isnan(wanted);
        EXPECT_TRUE(both_nan || got == wanted || std::fabs(got - wanted) < 1e-14 * size)
            << got << " for " << wanted;
      };
      for (int i = 0; i < W; ++i) {
        expect(tk::get(sums, i), s += in[i], 1e308);
        p *= in[i];
        expect(tk::get(products, i), p, std::fabs(p));
      }
      expect(tk::get(sum, 0), s, 1e308);
      expect(tk::get(product, 0), p, std::fabs(p));
    }
  }
}

template <class T>
int64_t ArgMax(const std::vector<T>& x) {
  auto s = tk::argmax_init<T, W>();
  for (size_t i = 0; i < x.size(); i += W) {
    const int64_t n = std::min<int64_t>(W, int64_t(x.size() - i));
    const tk::ArgVec<T, W> next = {tk::load_tail<T, W>(&x[i], n), tk::iota<int64_t, W>(int64_t(i))};
    s = tk::where(tk::mask_first<W>(n), tk::argmax_combine(s, next), s);
  }
  return tk::get(tk::argmax_reduce(s).index, 0);
}
template <class T>
int64_t ArgMin(const std::vector<T>& x) {
  auto s = tk::argmin_init<T, W>();
  for (size_t i = 0; i < x.size(); i += W) {
    const int64_t n = std::min<int64_t>(W, int64_t(x.size() - i));
    const tk::ArgVec<T, W> next = {tk::load_tail<T, W>(&x[i], n), tk::iota<int64_t, W>(int64_t(i))};
    s = tk::where(tk::mask_first<W>(n), tk::argmin_combine(s, next), s);
  }
  return tk::get(tk::argmin_reduce(s).index, 0);
}
TEST_F(Reduce, FirstIndexWinsTiesAndNanWins) {
  for (int at = 0; at < 100; at += 7) {
    std::vector<float> x(100, 1.0f);
    EXPECT_EQ(ArgMax(x), 0);
    EXPECT_EQ(ArgMin(x), 0);
    x[at] = 2, x[99] = 2;
    EXPECT_EQ(ArgMax(x), at);
    x[at] = -2, x[99] = -2;
    EXPECT_EQ(ArgMin(x), at);
    x[at] = NAN, x[98] = NAN;
    EXPECT_EQ(ArgMax(x), at);
    EXPECT_EQ(ArgMin(x), at);
    std::vector<int64_t> k(100, 5);
    k[at] = 6;
    EXPECT_EQ(ArgMax(k), at);
    k[at] = -6;
    EXPECT_EQ(ArgMin(k), at);
  }
  EXPECT_EQ(ArgMax(std::vector<float>(33, -INFINITY)), 0);
  EXPECT_EQ(ArgMin(std::vector<int32_t>(33, INT32_MAX)), 0);
}

TEST_F(Reduce, WelfordEqualsTwoPasses) {
  std::vector<float> x(1003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1000 + float(i * 7919 % 101);
  double mean = 0, m2 = 0;
  for (float v : x) mean += v / double(x.size());
  for (float v : x) m2 += (v - mean) * (v - mean);
  auto a = tk::welford_init<float, W>(), b = a;
  for (size_t i = 0; i < x.size(); i += W) {
    const int64_t n = std::min<int64_t>(W, int64_t(x.size() - i));
    auto& s = i < 500 ? a : b;
    s = tk::welford_add_masked(s, tk::load_tail<float, W>(&x[i], n), tk::mask_first<W>(n));
  }
  const auto s = tk::welford_reduce(tk::welford_combine(a, b));
  EXPECT_EQ(tk::get(s.weight, 0), 1003);
  EXPECT_NEAR(tk::get(s.mean, 0), mean, 1e-3);
  EXPECT_NEAR(tk::get(s.m2, 0) / m2, 1, 1e-4);
  const auto empty = tk::welford_reduce(tk::welford_combine(tk::welford_init<float, W>(), a));
  EXPECT_NEAR(tk::get(empty.weight, 0), 500 + (500 % W ? W - 500 % W : 0), 0);
}

// A lane that has nothing says nothing, however large the others' mean.
TEST_F(Reduce, WelfordOfFewLargeNumbers) {
  const std::vector<float> x(1, FLT_MAX);
  auto s = tk::welford_init<float, W>();
  s = tk::welford_add_masked(s, tk::load_tail<float, W>(x.data(), 1), tk::mask_first<W>(1));
  const auto all = tk::welford_reduce(s);
  EXPECT_EQ(tk::get(all.mean, 0), FLT_MAX);
  EXPECT_EQ(tk::get(all.m2, 0), 0);
}

template <class F>
tk::OnlineSoftmax<1> Softmax(const std::vector<float>& x, F) {
  auto a = tk::softmax_init<W>(), b = a;
  for (size_t i = 0; i < x.size(); i += W) {
    const int64_t n = std::min<int64_t>(W, int64_t(x.size() - i));
    auto& s = i / W % 2 ? a : b;
    s = tk::softmax_add_masked(s, tk::load_tail<float, W>(&x[i], n), tk::mask_first<W>(n));
  }
  return tk::softmax_reduce(tk::softmax_combine(a, b));
}
TEST_F(Reduce, OnlineSoftmax) {
  std::vector<float> x(77);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 31 % 17) * 3 - 20;
  x[5] = -INFINITY;
  double max = -INFINITY, sum = 0;
  for (float v : x) max = std::max<double>(max, v);
  for (float v : x) sum += std::exp(v - max);
  const auto s = Softmax(x, 0);
  EXPECT_EQ(tk::get(s.max, 0), float(max));
  EXPECT_NEAR(tk::get(s.sum, 0), sum, 1e-5 * sum);
  // All -infinity: exp(x - max) is NaN afterwards, as in eager; the state itself stays finite.
  EXPECT_EQ(tk::get(Softmax(std::vector<float>(20, -INFINITY), 0).max, 0), -INFINITY);
  x[8] = NAN;
  EXPECT_TRUE(std::isnan(tk::get(Softmax(x, 0).sum, 0)));
}

const PhiloxVectors& Vectors() {
  static const PhiloxVectors vectors = ReadPhiloxVectors();
  return vectors;
}

TEST_F(Random, PhiloxKnownAnswers) {
  ASSERT_EQ(Vectors().words.size(), 3u);
  for (const auto& c : Vectors().words) {
    tk::Philox<W> v;
    tk::Philox<1> one;
    for (int i = 0; i < 4; ++i)
      v.word[i] = tk::broadcast<W>(c.counter[i]), one.word[i] = tk::broadcast<1>(c.counter[i]);
    v = tk::philox(v, c.key[0], c.key[1]);
    one = tk::philox(one, c.key[0], c.key[1]);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(tk::get(v.word[i], 0), c.words[i]);
      EXPECT_EQ(tk::get(v.word[i], W - 1), c.words[i]);
      EXPECT_EQ(tk::get(one.word[i], 0), c.words[i]);
    }
  }
}

// The graph's operators, as one vector of elements first, first + 1, ...
template <int W>
tk::Vec<float, W> Uniform(int64_t seed, int64_t first, int64_t stream = 3) {
  return tk::philox_uniform(tk::broadcast<W>(seed), tk::broadcast<W>(stream),
                            tk::iota<int64_t, W>(first));
}
template <int W>
tk::Vec<float, W> Normal(int64_t seed, int64_t first, int64_t stream = 3) {
  return tk::philox_normal(tk::broadcast<W>(seed), tk::broadcast<W>(stream),
                           tk::iota<int64_t, W>(first));
}

TEST_F(Random, NumbersAreTheVectors) {
  for (const auto& v : Vectors().uniform) {
    EXPECT_EQ(tk::get(Uniform<W>(v.seed, v.element, v.stream), 0), v.value);
    EXPECT_EQ(tk::get(Uniform<1>(v.seed, v.element, v.stream), 0), v.value);
  }
  for (const auto& v : Vectors().normal) {
    EXPECT_PRED2(IsNormal, tk::get(Normal<W>(v.seed, v.element, v.stream), 0), v);
    EXPECT_PRED2(IsNormal, tk::get(Normal<1>(v.seed, v.element, v.stream), 0), v);
  }
}

TEST_F(Random, ValuesDependOnSeedAndElementOnly) {
  const int64_t base = (int64_t(1) << 35) - 3;
  for (int64_t seed : {int64_t(0), int64_t(42), int64_t(-1)}) {
    const auto uniform = Uniform<W>(seed, base), normal = Normal<W>(seed, base);
    for (int i = 0; i < W; ++i) {
      EXPECT_EQ(tk::get(uniform, i), tk::get(Uniform<1>(seed, base + i), 0));
      EXPECT_NEAR(tk::get(normal, i), tk::get(Normal<1>(seed, base + i), 0), 1e-5);
    }
  }
}

TEST_F(Random, DistributionsHaveTheirMoments) {
  double mean = 0, square = 0, normal_mean = 0, normal_square = 0;
  float least = 1, most = 0;
  constexpr int kCount = 1 << 18;
  for (int64_t i = 0; i < kCount; i += W) {
    const auto u = Uniform<W>(7, i), n = Normal<W>(8, i);
    for (int j = 0; j < W; ++j) {
      const float x = tk::get(u, j), y = tk::get(n, j);
      mean += x, square += double(x) * x, normal_mean += y, normal_square += double(y) * y;
      least = std::min(least, x), most = std::max(most, x);
      ASSERT_TRUE(std::isfinite(y));
    }
  }
  EXPECT_NEAR(mean / kCount, 0.5, 0.003);
  EXPECT_NEAR(square / kCount, 1.0 / 3, 0.003);
  EXPECT_NEAR(normal_mean / kCount, 0, 0.01);
  EXPECT_NEAR(normal_square / kCount, 1, 0.01);
  EXPECT_GE(least, 0);
  EXPECT_LT(most, 1);
}

}  // namespace cpu_reduce_test
