// SPDX-License-Identifier: Apache-2.0
// Checked numbers: one that eager refuses is reported from a lane that counts, and nothing else is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "kernels/cpu/checked.h"
#include "kernels/cpu/cpu.h"

namespace cpu_checked_test {

class Checked : public testing::Test {
 protected:
  // A divisor in lane `lane`, -1 in the others.
  template <class T, int W>
  static tk::Vec<T, W> With(T divisor, int lane) {
    tk::Lanes<T, W> lanes;
    for (int i = 0; i < W; ++i) lanes.at[i] = i == lane ? divisor : static_cast<T>(-1);
    return tk::from_lanes<W>(lanes);
  }

  template <class Check>
  int32_t FaultOf(const Check& check) {
    fault_ = {};
    check();
    return fault_.kind;
  }

  template <class T, int W>
  void EachLane() {
    for (int lane = 0; lane < W; ++lane) {
      const auto zero = With<T, W>(0, lane), other = With<T, W>(2, lane);
      const auto before = tk::mask_first<W>(lane), with = tk::mask_first<W>(lane + 1);
      const auto plain = [&](auto v) { return [=, this] { tk::checked_divisor(&args_, v); }; };
      const auto some = [&](auto v, auto on) {
        return [=, this] { tk::checked_divisor(&args_, v, on); };
      };
      EXPECT_EQ(FaultOf(plain(zero)), TENSORD_FAULT_DIVISION) << "lane " << lane;
      EXPECT_EQ(FaultOf(plain(other)), TENSORD_FAULT_NONE) << "lane " << lane;
      EXPECT_EQ(FaultOf(some(zero, with)), TENSORD_FAULT_DIVISION) << "lane " << lane;
      EXPECT_EQ(FaultOf(some(zero, before)), TENSORD_FAULT_NONE) << "lane " << lane;
      EXPECT_EQ(tk::to_lanes(tk::checked_divisor(&args_, zero)).at[lane], 0);
    }
  }

  TensordFault fault_ = {};
  const TensordKernelHost host_ = {nullptr, 1, &fault_};
  const TensordKernelArgs args_ = {nullptr, nullptr, nullptr, &host_};
};

TEST_F(Checked, ZeroIsReportedInLanesThatAreOn) {
  EachLane<int64_t, 1>();
  EachLane<int64_t, tk::kLanes>();
  EachLane<int32_t, tk::kLanes>();
  EachLane<int16_t, tk::kLanes>();
  EachLane<int8_t, tk::kLanes>();
  EachLane<uint8_t, tk::kLanes>();
}

TEST_F(Checked, ProbabilitiesOutOfRangeAreReportedInLanesThatAreOn) {
  constexpr int W = tk::kLanes;
  const auto of = [](float p) { return tk::broadcast<W>(p); };
  const auto none = tk::mask_first<W>(0), all = tk::mask_first<W>(W);
  for (const float p : {-0.1f, 1.5f, NAN}) {
    EXPECT_EQ(FaultOf([&] { tk::checked_probability(&args_, of(p)); }), TENSORD_FAULT_PROBABILITY);
    EXPECT_EQ(FaultOf([&] { tk::checked_probability(&args_, of(p), all); }),
              TENSORD_FAULT_PROBABILITY);
    EXPECT_EQ(FaultOf([&] { tk::checked_probability(&args_, of(p), none); }), TENSORD_FAULT_NONE);
    EXPECT_EQ(FaultOf([&] { tk::checked_target(&args_, of(p)); }), TENSORD_FAULT_TARGET);
    EXPECT_EQ(FaultOf([&] { tk::checked_target(&args_, of(p), none); }), TENSORD_FAULT_NONE);
  }
  for (const float p : {0.0f, 0.5f, 1.0f}) {
    EXPECT_EQ(FaultOf([&] { tk::checked_probability(&args_, of(p)); }), TENSORD_FAULT_NONE);
    EXPECT_EQ(FaultOf([&] { tk::checked_target(&args_, of(p), all); }), TENSORD_FAULT_NONE);
  }
}

TEST_F(Checked, WhatRandomNumbersAreDrawnByIsReportedInLanesThatAreOn) {
  constexpr int W = tk::kLanes;
  const auto of = [](float x) { return tk::broadcast<W>(x); };
  const auto none = tk::mask_first<W>(0), all = tk::mask_first<W>(W);
  for (const float x : {-0.1f, NAN}) {
    EXPECT_EQ(FaultOf([&] { tk::checked_deviation(&args_, of(x)); }), TENSORD_FAULT_DEVIATION);
    EXPECT_EQ(FaultOf([&] { tk::checked_deviation(&args_, of(x), all); }), TENSORD_FAULT_DEVIATION);
    EXPECT_EQ(FaultOf([&] { tk::checked_deviation(&args_, of(x), none); }), TENSORD_FAULT_NONE);
    EXPECT_EQ(FaultOf([&] { tk::checked_drawn_probability(&args_, of(x)); }),
              TENSORD_FAULT_DRAWN_PROBABILITY);
  }
  for (const float x : {0.0f, 1.0f}) {
    EXPECT_EQ(FaultOf([&] { tk::checked_deviation(&args_, of(x)); }), TENSORD_FAULT_NONE);
    EXPECT_EQ(FaultOf([&] { tk::checked_drawn_probability(&args_, of(x)); }), TENSORD_FAULT_NONE);
  }
  EXPECT_EQ(FaultOf([&] { tk::checked_deviation(&args_, of(7)); }), TENSORD_FAULT_NONE);
}

TEST_F(Checked, AnIndexThatWasReportedBeforeStays) {
  fault_ = {.kind = TENSORD_FAULT_INDEX, .dimension = 1, .index = 7, .size = 5};
  tk::checked_divisor(&args_, tk::broadcast<1>(int64_t{0}));
  EXPECT_EQ(fault_.kind, TENSORD_FAULT_INDEX);
  EXPECT_EQ(fault_.index, 7);
}

}  // namespace cpu_checked_test
