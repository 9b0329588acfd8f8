// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/life_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "compiler/memory/range_maximum.h"

namespace tensord::compiler {
namespace life_index_test {

TEST(LifeIndexTest, FindsEachLifeThatMeetsAnother) {
  std::mt19937 random(3);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 50; ++round) {
    const int steps = 1 + pick(40);
    const auto life = [&] {
      const int first = pick(steps);
      return Lifetime{first, first + pick(steps - first)};
    };
    std::vector<Lifetime> lives;
    LifeIndex index;
    for (int i = 0; i < 40; ++i) {
      const Lifetime asked = life();
      std::vector<int> expected, found;
      for (int j = 0; j < i; ++j) {
        if (lives[j].Meets(asked)) expected.push_back(j);
      }
      index.ForEachMeeting(asked, [&](int number) { found.push_back(number); });
      EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(expected));
      lives.push_back(life());
      index.Add(lives.back(), i);
    }
  }
}

TEST(RangeMaximumTest, IsTheLargestOfEachRange) {
  std::mt19937 random(5);
  for (size_t count = 1; count < 20; ++count) {
    std::vector<int64_t> numbers(count);
    for (int64_t& number : numbers) number = static_cast<int64_t>(random() % 100) - 50;
    const RangeMaximum most(numbers);
    for (size_t begin = 0; begin < count; ++begin) {
      for (size_t end = begin + 1; end <= count; ++end) {
        EXPECT_EQ(most.Largest(begin, end),
                  *std::max_element(numbers.begin() + begin, numbers.begin() + end));
      }
    }
  }
}

}  // namespace life_index_test
}  // namespace tensord::compiler
