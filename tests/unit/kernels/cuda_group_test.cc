// SPDX-License-Identifier: Apache-2.0
// Reductions of the CUDA prelude: over the lanes of a thread against the CPU prelude, over groups
// of threads, run on the host. All threads of a group must get the same bits, also when the
// same shared memory serves one reduction after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/kernels/cuda_group_testing.h"
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

using cuda_on_host::RunBlock;
using tensord::testing::Normal;
using tensord::testing::SameBits;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// --- lanes of one thread

template <int W>
void CheckLanes() {
  const std::vector<float> values = Normal(16 * W);
  auto moments = tk::welford_start<float, W>();
  auto softmax = tk::softmax_start<float, W>();
  auto high = tk::argmax_start<float, W>(), low = tk::argmin_start<float, W>();
  tk::Vec<float, W> sum = tk::broadcast<W>(0.0f);
  for (int i = 0; i < 16; ++i) {
    const auto x = tk::load<float, W>(values.data() + i * W);
    moments = tk::welford_add(moments, x);
    softmax = tk::softmax_add(softmax, x);
    high = tk::argmax_add(high, x, i * W);
    low = tk::argmin_add(low, x, i * W);
    sum = tk::add(sum, x);
  }
  double mean = 0, m2 = 0, weight = 0;
  for (float x : values) mean += x / double(values.size());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  for (float x : values) m2 += (x - mean) * (x - mean), weight += std::exp(double(x) - *most);
  const auto total = tk::welford_reduce(moments);
  EXPECT_NEAR(total.mean.at[0], mean, 1e-6 * mean);
  EXPECT_NEAR(total.m2.at[0], m2, 2e-6 * m2);
  EXPECT_EQ(total.weight.at[0], float(values.size()));
  const auto merged = tk::softmax_reduce(softmax);
  EXPECT_EQ(merged.max.at[0], *most);
  EXPECT_NEAR(merged.sum.at[0], weight, 2e-6 * weight);
  EXPECT_EQ(tk::argmax_reduce(high).index.at[0], most - values.begin());
  EXPECT_EQ(tk::argmin_reduce(low).index.at[0], least - values.begin());
  EXPECT_NEAR(tk::reduce_sum(sum), mean * double(values.size()), 1e-4);
  EXPECT_EQ(tk::reduce_max(high.value), *most);
  EXPECT_EQ(tk::reduce_min(low.value), *least);
  EXPECT_EQ(tk::reduce_prod(tk::broadcast<W>(2)), 1 << W);
  EXPECT_EQ(tk::reduce_xor(tk::iota<int, W>(8)), W == 1 ? 8 : W == 2 ? 1 : 0);
}
TEST(LanesTest, ReduceToTheSameAsTheElements) {
  CheckLanes<1>();
  CheckLanes<2>();
  CheckLanes<4>();
  CheckLanes<8>();
  CheckLanes<16>();
}

template <class F>
int64_t ArgMaxOf(const std::vector<float>& v, F combine_start) {
  auto s = combine_start;
  for (size_t i = 0; i < v.size(); i += 4)
    s = tk::argmax_add(s, tk::load<float, 4>(v.data() + i), int64_t(i));
  return tk::argmax_reduce(s).index.at[0];
}
TEST(LanesTest, ArgMaxTakesTheFirstAndNanBeforeAll) {
  const auto start = tk::argmax_start<float, 4>();
  EXPECT_EQ(ArgMaxOf({1, 5, 2, 5, 5, 0, 5, 1}, start), 1);
  EXPECT_EQ(ArgMaxOf({1, 2, 3, 5, 5, 0, 0, 1}, start), 3);
  EXPECT_EQ(ArgMaxOf({1, kInf, 3, 5, 5, kNan, kNan, 1}, start), 5);
  EXPECT_EQ(ArgMaxOf({-kInf, -kInf, -kInf, -kInf}, start), 0);
  EXPECT_EQ(ArgMaxOf({0.0f, -0.0f, 0.0f, -1}, start), 0);
}
TEST(LanesTest, SoftmaxOfInfinities) {
  const auto state = [](tk::Vec<float, 2> a, tk::Vec<float, 2> b) {
    return tk::softmax_reduce(
        tk::softmax_add(tk::softmax_add(tk::softmax_start<float, 2>(), a), b));
  };
  EXPECT_EQ(state({{-kInf, 1}}, {{-kInf, -kInf}}).sum.at[0], 1);
  EXPECT_EQ(state({{-kInf, 1}}, {{-kInf, -kInf}}).max.at[0], 1);
  EXPECT_TRUE(std::isnan(state({{kNan, 1}}, {{2, 3}}).sum.at[0]));
}

// --- groups of threads

template <int G, class F>
void RunGroups(F f) {
  alignas(16) static char shared[tk::kGroupSharedBytes];
  RunBlock(std::max(G, 32), [&] { f(shared); });
}

// What every kind of reduction over a group gives to one of its threads.
struct GroupResult {
  float sum, product, least, most, max, weight, mean, m2;
  int integer;
  double wide;
  int64_t arg_max, arg_min;
  int any, all, none;
};

// A thread's part: it has the four numbers of `x`, of which it gives one in each round.
template <int G, class M>
GroupResult ReduceGroup(tk::Vec<float, 4> x, int round, M&& m) {
  const int t = int(threadIdx.x);
  const float one = x.at[round % 3];
  GroupResult r = {};
  r.sum = tk::group_add<G>(one, m);
  r.product = tk::group_mul<G>(t % 5 == round ? 2.0f : 1.0f, m);
  r.least = tk::group_min<G>(one, m);
  r.most = tk::group_max<G>(one, m);
  r.integer = tk::group_add<G>(t + round, m);
  r.wide = tk::group_add<G>(double(one), m);
  const auto moments = tk::group_welford<G>(
      tk::welford_reduce(tk::welford_add(tk::welford_start<float, 4>(), x)), m);
  r.mean = moments.mean.at[0], r.m2 = moments.m2.at[0];
  const auto softmax = tk::group_softmax<G>(
      tk::softmax_reduce(tk::softmax_add(tk::softmax_start<float, 4>(), x)), m);
  r.max = softmax.max.at[0], r.weight = softmax.sum.at[0];
  // Every value twice, so that ties are broken.
  const auto tied = tk::broadcast<1>(std::floor(one));
  const auto most = tk::argmax_add(tk::argmax_start<float, 1>(), tied, t);
  const auto least = tk::argmin_add(tk::argmin_start<float, 1>(), tied, t);
  r.arg_max = tk::group_argmax<G>(most, m).index.at[0];
  r.arg_min = tk::group_argmin<G>(least, m).index.at[0];
  r.any = tk::group_any<G>(t % G == round, m);
  r.all = tk::group_all<G>(t >= 0, m);
  r.none = tk::group_any<G>(t < 0, m) || (G > 1 && tk::group_all<G>(t % G != 0, m));
  return r;
}

// `r` against the same reductions in double, one number after the other: of the group's threads
// from `first` on, thread t with values[4 * t] and the next three.
template <int G>
void ExpectReduced(const GroupResult& r, const std::vector<float>& values, int first, int round) {
  double sum = 0, product = 1, mean = 0, m2 = 0, weight = 0, integer = 0;
  float least = kInf, most = -kInf, max = -kInf, high = -kInf, low = kInf;
  int64_t arg_max = 0, arg_min = 0;
  for (int t = first; t < first + G; ++t) {
    const float x = values[4 * t + round % 3];
    sum += x, product *= t % 5 == round ? 2 : 1, integer += t + round;
    least = std::min(least, x), most = std::max(most, x);
    if (std::floor(x) > high) high = std::floor(x), arg_max = t;
    if (std::floor(x) < low) low = std::floor(x), arg_min = t;
    for (int k = 0; k < 4; ++k) {
      mean += values[4 * t + k] / double(4 * G);
      max = std::max(max, values[4 * t + k]);
    }
  }
  for (int i = 4 * first; i < 4 * (first + G); ++i) {
    m2 += (values[i] - mean) * (values[i] - mean);
    weight += std::exp(double(values[i]) - max);
  }
  ASSERT_NEAR(r.sum, sum, 1e-5 * std::fabs(sum) + 1e-5) << G;
  ASSERT_EQ(r.product, float(product));
  ASSERT_EQ(r.least, least);
  ASSERT_EQ(r.most, most);
  ASSERT_EQ(r.integer, int(integer));
  ASSERT_NEAR(r.wide, sum, 1e-12 * std::fabs(sum));
  ASSERT_NEAR(r.mean, mean, 1e-5 * std::fabs(mean));
  ASSERT_NEAR(r.m2, m2, 1e-5 * m2);
  ASSERT_EQ(r.max, max);
  ASSERT_NEAR(r.weight, weight, 1e-5 * weight);
  ASSERT_EQ(r.arg_max, arg_max);
  ASSERT_EQ(r.arg_min, arg_min);
  ASSERT_EQ(r.any, round < G);
  ASSERT_TRUE(r.all);
  ASSERT_FALSE(r.none);
}

bool SameBits(const GroupResult& a, const GroupResult& b) {
  return SameBits(a.sum, b.sum) && SameBits(a.mean, b.mean) && SameBits(a.m2, b.m2) &&
         SameBits(a.weight, b.weight) && SameBits(a.most, b.most) && a.arg_max == b.arg_max &&
         a.any == b.any;
}

template <int G>
void CheckGroup() {
  constexpr int kThreads = std::max(G, 32), kRounds = 3;
  const std::vector<float> values = Normal(kThreads * 4);
  std::vector<GroupResult> results(kThreads * kRounds * 2);
  // In the first rounds with the memory as an object, in the others with the bare pointer.
  RunGroups<G>([&](void* shared) {
    tk::GroupMemory memory{shared};
    const int t = int(threadIdx.x);
    const auto x = tk::load<float, 4>(values.data() + 4 * t);
    for (int round = 0; round < 2 * kRounds; ++round) {
      results[round * kThreads + t] =
          round < kRounds ? ReduceGroup<G>(x, round, memory) : ReduceGroup<G>(x, round, shared);
    }
  });
  for (int round = 0; round < 2 * kRounds; ++round) {
    for (int first = 0; first < kThreads; first += G) {
      const GroupResult& r = results[round * kThreads + first];
      ASSERT_NO_FATAL_FAILURE(ExpectReduced<G>(r, values, first, round));
      for (int t = first; t < first + G; ++t) {
        ASSERT_TRUE(SameBits(results[round * kThreads + t], r))
            << "thread " << t << " of a group of " << G << " has another result";
      }
    }
  }
}
// Groups of whole warps that do not agree: each has one more round than the one before.
template <int G, int T>
void CheckGroupsOfBlock() {
  const std::vector<float> values = Normal(T);
  struct Result {
    float sum, least, most, mean, weight;
    tk::Vec<float, 3> each;
  };
  std::vector<std::vector<Result>> results(T);
  alignas(16) static char shared[tk::kGroupSharedBytes];
  RunBlock(T, [&] {
    tk::GroupMemory memory{shared};
    const int t = int(threadIdx.x);
    for (int round = 0; round <= t / G; ++round) {
      const float x = values[t] + float(round);
      Result r = {};
      r.sum = tk::group_add<G>(x, tk::groups_of(memory));
      r.least = tk::group_min<G>(x, tk::groups_of(memory));
      r.each = tk::group_add_each<G>(tk::Vec<float, 3>{{x, 2 * x, 1}}, tk::groups_of(memory));
      r.most = tk::group_max<G>(x, tk::groups_of(memory));
      const auto lane = tk::broadcast<1>(x);
      r.mean = tk::group_welford<G>(
                   tk::welford_reduce(tk::welford_add(tk::welford_start<float, 1>(), lane)),
                   tk::groups_of(memory))
                   .mean.at[0];
      r.weight = tk::group_softmax<G>(
                     tk::softmax_reduce(tk::softmax_add(tk::softmax_start<float, 1>(), lane)),
                     tk::groups_of(memory))
                     .sum.at[0];
      results[t].push_back(r);
    }
  });
  for (int t = 0; t < T; ++t) {
    const int first = t / G * G;
    ASSERT_EQ(results[t].size(), size_t(t / G + 1));
    for (int round = 0; round <= t / G; ++round) {
      double sum = 0, weight = 0;
      float least = kInf, most = -kInf;
      for (int i = first; i < first + G; ++i) {
        const float x = values[i] + float(round);
        sum += x, least = std::min(least, x), most = std::max(most, x);
      }
      for (int i = first; i < first + G; ++i) {
        weight += std::exp(double(values[i]) + round - most);
      }
      const Result& r = results[t][round];
      ASSERT_NEAR(r.sum, sum, 1e-5 * std::fabs(sum)) << "thread " << t << " of groups of " << G;
      ASSERT_EQ(r.least, least);
      ASSERT_EQ(r.most, most);
      ASSERT_NEAR(r.mean, sum / G, 1e-5 * std::fabs(sum / G));
      ASSERT_NEAR(r.weight, weight, 1e-5 * weight);
      ASSERT_NEAR(r.each.at[0], sum, 1e-5 * std::fabs(sum));
      ASSERT_NEAR(r.each.at[1], 2 * sum, 2e-5 * std::fabs(sum));
      ASSERT_EQ(r.each.at[2], float(G));
    }
  }
}
TEST(GroupTest, GroupsOfABlock) {
  CheckGroupsOfBlock<64, 256>();
  CheckGroupsOfBlock<96, 480>();
  CheckGroupsOfBlock<128, 512>();
  CheckGroupsOfBlock<256, 256>();
}
// One group may be at a reduction of large states while another is at one of small ones.
TEST(GroupTest, GroupsHaveSlotsOfTheirOwn) {
  constexpr int kGroup = 96, kThreads = 480;
  alignas(16) static char shared[tk::kGroupSharedBytes];
  std::vector<char*> of_small(kThreads), of_large(kThreads);
  RunBlock(kThreads, [&] {
    const int t = int(threadIdx.x);
    tk::GroupMemory one{shared}, other{shared};
    of_small[t] = tk::impl::slots<kGroup, char>(tk::groups_of(one));
    using Large = tk::Welford<double, 1>;
    Large* const large = tk::impl::slots<kGroup, Large>(tk::groups_of(other));
    of_large[t] = reinterpret_cast<char*>(large + kGroup / 32);  // behind the last
  });
  for (int t = kGroup; t < kThreads; ++t) {
    EXPECT_EQ(of_small[t] == of_small[t - 1], t % kGroup != 0);
    EXPECT_GE(of_small[t], of_large[t - kGroup]);
  }
  EXPECT_LE(of_large.back(), of_small[0] + tk::kGroupSharedBytes / 2);
}
TEST(GroupTest, PartsOfAWarp) {
  CheckGroup<1>();
  CheckGroup<2>();
  CheckGroup<4>();
  CheckGroup<8>();
  CheckGroup<16>();
  CheckGroup<32>();
}
TEST(GroupTest, WholeBlocks) {
  CheckGroup<64>();
  CheckGroup<96>();
  CheckGroup<256>();
  CheckGroup<352>();
}
// N sums of each of G columns over T / G groups, B handed over at once, in memory that is no larger
// than they say.
template <int G, int T, int B, int N>
void CheckGroupsCombine() {
  constexpr float kUntouched = -77;
  std::vector<float> shared(T / 2 * B + 8, kUntouched), results(G * N, 0);
  RunBlock(T, [&] {
    const int thread = int(threadIdx.x);
    for (int round = 0; round < 2; ++round) {  // one after the other through the same memory
      float v[N];
      for (int k = 0; k < N; ++k) v[k] = float(thread * (k + 1) + round);
      tk::combine_groups<G, T, B>(v, [](float a, float b) { return a + b; }, shared.data());
      if (thread >= G) continue;
      for (int k = 0; k < N; ++k) results[k * G + thread] = v[k];
    }
  });
  for (int k = 0; k < N; ++k) {
    for (int column = 0; column < G; ++column) {
      float wanted = 0;
      for (int t = column; t < T; t += G) wanted += float(t * (k + 1) + 1);
      EXPECT_EQ(results[k * G + column], wanted) << k << " of " << column << ", G " << G;
    }
  }
  EXPECT_TRUE(std::all_of(shared.end() - 8, shared.end(), [](float x) { return x == kUntouched; }));
}

TEST(GroupTest, GroupsCombineTheirColumns) {
  CheckGroupsCombine<32, 128, 6, 6>();
  CheckGroupsCombine<64, 256, 2, 3>();
  CheckGroupsCombine<32, 96, 2, 5>();   // three groups
  CheckGroupsCombine<64, 320, 2, 5>();  // five
  CheckGroupsCombine<1, 64, 1, 1>();
  CheckGroupsCombine<96, 96, 1, 2>();  // one has them all
}

TEST(GroupTest, NanPropagates) {
  for (int place : {0, 31, 40, 95}) {
    RunGroups<96>([&](void* shared) {
      const float x = int(threadIdx.x) == place ? kNan : 1.0f;
      EXPECT_TRUE(std::isnan(tk::group_max<96>(x, shared)));
      EXPECT_TRUE(std::isnan(tk::group_min<96>(x, shared)));
      const auto s =
          tk::argmax_add(tk::argmax_start<float, 1>(), tk::broadcast<1>(x), int64_t(threadIdx.x));
      EXPECT_EQ(tk::group_argmax<96>(s, shared).index.at[0], place);
    });
  }
}

}  // namespace
