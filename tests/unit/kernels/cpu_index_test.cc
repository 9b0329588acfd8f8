// SPDX-License-Identifier: Apache-2.0
// Checked indices: what is out of range is brought into range and reported, first come first
// served.
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/index.h"

namespace cpu_index_test {

class CheckedIndex : public testing::Test {
 protected:
  // Lanes 1, 2, ..., and `index` in lane `lane`.
  template <int W>
  static tk::Vec<int64_t, W> With(int64_t index, int lane) {
    tk::Lanes<int64_t, W> lanes;
    for (int i = 0; i < W; ++i) lanes.at[i] = i == lane ? index : i + 1;
    return tk::from_lanes<W>(lanes);
  }

  template <int W, class Check>
  void EachLane(int64_t index, int64_t expected, bool is_fault, Check check) {
    for (int lane = 0; lane < W; ++lane) {
      fault_ = {};
      const auto found = tk::to_lanes(check(With<W>(index, lane)));
      for (int i = 0; i < W; ++i) {
        EXPECT_EQ(found.at[i], i == lane ? expected : i + 1) << index << " in lane " << lane;
      }
      EXPECT_EQ(fault_.kind, is_fault ? TENSORD_FAULT_INDEX : TENSORD_FAULT_NONE)
          << index << " in lane " << lane;
      if (!is_fault) continue;
      EXPECT_EQ(fault_.index, index);
      EXPECT_EQ(fault_.size, kSize);
      EXPECT_EQ(fault_.dimension, 3);
    }
  }

  template <int W>
  void EachIndex() {
    const auto plain = [&](auto index) { return tk::checked_index(&args_, index, kSize, 3); };
    const auto wrapped = [&](auto index) { return tk::wrapped_index(&args_, index, kSize, 3); };
    for (const int64_t index : {int64_t{0}, int64_t{7}, kSize - 1}) {
      EachLane<W>(index, index, false, plain);
      EachLane<W>(index, index, false, wrapped);
    }
    for (const int64_t index : {kSize, kSize + 1, int64_t{1} << 32, int64_t{INT64_MAX}}) {
      EachLane<W>(index, kSize - 1, true, plain);
      EachLane<W>(index, kSize - 1, true, wrapped);
    }
    for (const int64_t index : {int64_t{-1}, -kSize, int64_t{INT32_MIN}, int64_t{INT64_MIN}}) {
      EachLane<W>(index, 0, true, plain);
    }
    EachLane<W>(-1, kSize - 1, false, wrapped);
    EachLane<W>(-kSize, 0, false, wrapped);
    for (const int64_t index : {-kSize - 1, int64_t{INT64_MIN}}) {
      EachLane<W>(index, 0, true, wrapped);
    }
  }

  static constexpr int64_t kSize = 100;
  TensordFault fault_ = {};
  const TensordKernelHost host_ = {nullptr, 1, &fault_};
  const TensordKernelArgs args_ = {nullptr, nullptr, nullptr, &host_};
};

TEST_F(CheckedIndex, IsBroughtIntoRangeAndReported) {
  EachIndex<1>();
  EachIndex<tk::kLanes>();
}

TEST_F(CheckedIndex, IsNotReportedWhereALaneIsOff) {
  constexpr int W = tk::kLanes;
  for (int lane = 0; lane < W; ++lane) {
    for (const int64_t index : {int64_t{-5}, kSize + 5}) {
      fault_ = {};
      tk::checked_index(&args_, With<W>(index, lane), kSize, 0, tk::mask_first<W>(lane));
      EXPECT_EQ(fault_.kind, TENSORD_FAULT_NONE) << index << " in lane " << lane;
      tk::checked_index(&args_, With<W>(index, lane), kSize, 0, tk::mask_first<W>(lane + 1));
      EXPECT_EQ(fault_.kind, TENSORD_FAULT_INDEX) << index << " in lane " << lane;
      EXPECT_EQ(fault_.index, index);
    }
  }
}

TEST_F(CheckedIndex, TheFirstIsReported) {
  constexpr int W = tk::kLanes;
  tk::checked_index(&args_, tk::broadcast<W>(int64_t{200}), kSize, 1);
  tk::checked_index(&args_, tk::broadcast<W>(int64_t{300}), kSize, 2);
  EXPECT_EQ(fault_.index, 200);
  EXPECT_EQ(fault_.dimension, 1);
}

}  // namespace cpu_index_test
