// SPDX-License-Identifier: Apache-2.0
// base/philox.h, and the runtime's random numbers for graphs that run without generated code.
#include "base/philox.h"

#include <gtest/gtest.h>

#include "tensord/runtime.h"
#include "tests/unit/testing/philox_vectors.h"

namespace tensord::runtime {
namespace {

const testing::PhiloxVectors& Vectors() {
  static const testing::PhiloxVectors vectors = testing::ReadPhiloxVectors();
  return vectors;
}

TEST(Philox, GivesThePublishedWords) {
  ASSERT_EQ(Vectors().words.size(), 3u);
  for (const auto& v : Vectors().words) EXPECT_EQ(Philox(v.counter, v.key), v.words);
}

// The functions fill from element 0 on.
TEST(Philox, FillsWithTheVectors) {
  int checked = 0;
  for (const auto& v : Vectors().uniform) {
    if (v.element > 2000) continue;
    std::vector<float> filled(v.element + 1);
    tensord_philox_uniform(v.seed, static_cast<uint32_t>(v.stream), filled.size(), filled.data());
    EXPECT_EQ(filled.back(), v.value);
    ++checked;
  }
  for (const auto& v : Vectors().normal) {
    if (v.element > 2000) continue;
    std::vector<float> filled(v.element + 1);
    tensord_philox_normal(v.seed, static_cast<uint32_t>(v.stream), filled.size(), filled.data());
    EXPECT_TRUE(testing::IsNormal(filled.back(), v)) << filled.back() << ", not " << v.value;
    ++checked;
  }
  EXPECT_EQ(checked, 60);
}

TEST(Philox, BlocksFarAwayHaveTheirWords) {
  for (const auto& v : Vectors().uniform) {
    const auto element = static_cast<uint64_t>(v.element);
    const PhiloxWords words =
        PhiloxBlock(static_cast<uint64_t>(v.seed), static_cast<uint32_t>(v.stream), element / 4);
    EXPECT_EQ(PhiloxUnit(words[element % 4]), v.value);
  }
}

}  // namespace
}  // namespace tensord::runtime
