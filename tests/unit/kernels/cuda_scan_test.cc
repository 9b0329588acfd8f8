// SPDX-License-Identifier: Apache-2.0
// Prefixes of the CUDA prelude, run on the host: over all tiles of a grid, whose blocks run side by
// side, and along the row of one group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/kernels/cuda_group_testing.h"
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

using cuda_on_host::RunBlock;
using tensord::testing::Normal;
using tensord::testing::SameBits;

const float kNan = std::nanf("");

// As many blocks at a time as the machine bears, each drawing tiles.
template <int G, class T, class F>
std::vector<T> Scan(const std::vector<T>& values, F f, T identity) {
  const int tiles = int(values.size()) / (2 * G);
  std::vector<uint64_t> scratch(tk::scan_scratch_bytes<T>(tiles) / 8);
  std::vector<T> result(values.size());
  const auto run_block = [&] {
    alignas(16) char shared[tk::kGroupSharedBytes];
    RunBlock(G, [&] {
      tk::GroupMemory memory{shared};
      for (;;) {
        const int tile = tk::scan_tile<G>(scratch.data(), memory);
        if (tile >= tiles) break;
        const int at = (tile * G + int(threadIdx.x)) * 2;
        const auto scanned = tk::scan_lanes(tk::Vec<T, 2>{{values[at], values[at + 1]}}, f);
        const T before =
            tk::scan_grid<G>(scanned.at[1], f, identity, scratch.data(), tiles, tile, memory);
        const auto r = tk::scan_after(before, scanned, f);
        result[at] = r.at[0], result[at + 1] = r.at[1];
      }
    });
  };
  std::thread other(run_block);
  run_block();
  other.join();
  return result;
}

TEST(ScanTest, SumsIntegers) {
  std::vector<int64_t> values(64 * 2 * 45);
  std::iota(values.begin(), values.end(), -100);
  std::vector<int64_t> want(values.size());
  std::partial_sum(values.begin(), values.end(), want.begin());
  EXPECT_EQ(Scan<64>(values, tk::ScanSum(), int64_t(0)), want);
  const std::vector<int> small(32 * 2 * 1100, 1);  // more than one span
  const std::vector<int> sums = Scan<32>(small, tk::ScanSum(), 0);
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], int(i) + 1);
}
// x -> a*x + b is associative, and does not commute.
struct Line {
  float a, b;
};
double LineOf(float a, float b) { return __builtin_bit_cast(double, Line{a, b}); }
double Compose(double x, double y) {
  const Line f = __builtin_bit_cast(Line, x), g = __builtin_bit_cast(Line, y);
  return LineOf(f.a * g.a, g.a * f.b + g.b);
}
TEST(ScanTest, KeepsTheOrder) {
  const double identity = LineOf(1, 0);
  std::vector<double> values(96 * 2 * 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = LineOf(i % 5 ? 1.0f : -1.0f, float(i % 7));
  const std::vector<double> got = Scan<96>(values, Compose, identity);
  double want = identity;
  for (size_t i = 0; i < values.size(); ++i) {
    want = Compose(want, values[i]);
    ASSERT_TRUE(SameBits(got[i], want)) << i;
  }
}
TEST(ScanTest, FloatsAreTheSameInEveryRun) {
  const std::vector<float> values = Normal(32 * 2 * 100);
  const std::vector<float> first = Scan<32>(values, tk::ScanSum(), 0.0f);
  EXPECT_EQ(first, Scan<32>(values, tk::ScanSum(), 0.0f));
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    ASSERT_NEAR(first[i], sum, 1e-5 * std::fabs(sum) + 1e-5);
  }
}

// Rows of 5 vectors a thread, of which the last ones are not there; all threads agree on the end.
template <int G, class T, class F, class N>
void CheckGroupScan(const std::vector<T>& values, F vector, N number, T identity) {
  constexpr int W = 2;
  const int vectors = int(values.size()) / W;
  const int threads = std::max(G, 32);
  std::vector<std::vector<T>> results(threads / G, std::vector<T>(values.size()));
  std::vector<T> ends(threads);
  alignas(16) char shared[tk::kGroupSharedBytes];
  RunBlock(threads, [&] {
    tk::GroupMemory memory{shared};
    const int group = int(threadIdx.x) / G, lane = int(threadIdx.x) % G;
    tk::Vec<T, 1> before = {{identity}};
    for (int first = 0; first < vectors; first += G) {
      const int at = first + lane;
      const auto v =
          at < vectors ? tk::load<T, W>(values.data() + at * W) : tk::broadcast<W>(identity);
      const auto prefixes = tk::group_scan<G>(before, v, vector, identity, memory);
      if (at < vectors) tk::store<T, W>(results[group].data() + at * W, prefixes);
    }
    ends[threadIdx.x] = before.at[0];
  });
  std::vector<T> want(values.size());
  std::partial_sum(values.begin(), values.end(), want.begin(), number);
  for (const std::vector<T>& result : results) {
    for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(SameBits(result[i], want[i])) << G << i;
  }
  for (const T end : ends) ASSERT_TRUE(SameBits(end, want.back())) << G;
}
template <int G>
void CheckGroupScans() {
  std::vector<int> integers(2 * (4 * G + G / 2 + 1));
  std::iota(integers.begin(), integers.end(), -50);
  const auto add = [](auto a, auto b) { return tk::add(a, b); };
  const auto maximum = [](auto a, auto b) { return tk::maximum(a, b); };
  CheckGroupScan<G>(integers, add, std::plus<int>(), 0);
  std::vector<float> floats = Normal(int(integers.size()));
  floats[floats.size() / 2] = kNan;  // the greatest from there on
  CheckGroupScan<G>(
      floats, maximum, [](float a, float b) { return std::isnan(a) || a > b ? a : b; },
      tk::lowest<float>());
  std::vector<double> lines;
  for (const int x : integers) lines.push_back(LineOf(x % 5 ? 1.0f : -1.0f, float(x % 7)));
  const auto both = [](auto x, auto y) { return tk::broadcast<1>(Compose(x.at[0], y.at[0])); };
  CheckGroupScan<G>(lines, both, Compose, LineOf(1, 0));
}
// What a part comes to, and what stands before one.
template <int G>
void CheckTotals() {
  constexpr int W = 2;
  const auto maximum = [](auto a, auto b) { return tk::maximum(a, b); };
  std::vector<int> values(W * G);
  std::iota(values.begin(), values.end(), -7);
  std::rotate(values.begin(), values.begin() + G / 3, values.end());
  alignas(16) char shared[tk::kGroupSharedBytes];
  for (const int count : {0, 1, G - 1, G, W * G}) {
    const int before = *std::max_element(values.begin(), values.begin() + std::max(1, count));
    RunBlock(G, [&] {
      tk::GroupMemory memory{shared};
      const auto v = tk::load<int, W>(values.data() + threadIdx.x * W);
      const int none = tk::lowest<int>();
      ASSERT_EQ(tk::group_total<G>(v, maximum, none, memory), W * G - 8);
      const int found = tk::group_before<int, G>(values.data(), count, maximum, none, memory);
      ASSERT_EQ(found, count == 0 ? none : before);
    });
  }
}
TEST(ScanTest, PartsOfARowStartFromTheTotalsBefore) {
  CheckTotals<32>();
  CheckTotals<96>();
  CheckTotals<256>();
}

TEST(ScanTest, AGroupRunsThroughItsRow) {
  CheckGroupScans<1>();
  CheckGroupScans<2>();
  CheckGroupScans<8>();
  CheckGroupScans<32>();
  CheckGroupScans<96>();
  CheckGroupScans<1024>();
}

}  // namespace
