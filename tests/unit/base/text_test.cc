// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

namespace tensord {
namespace text_test {

TEST(Text, IsCutBetweenLetters) {
  EXPECT_EQ(Cut("short", 5), "short");
  EXPECT_EQ(Cut("longer", 4), "long");
  EXPECT_EQ(Cut("aé", 2), "a");
  EXPECT_EQ(Cut("aéb", 3), "aé");
}

TEST(Text, IsCutInFront) {
  EXPECT_EQ(CutFront("short", 5), "short");
  EXPECT_EQ(CutFront("folder/model.py:7", 13), "...model.py:7");
  EXPECT_EQ(CutFront("ééé:7", 6), "...:7");
  EXPECT_EQ(CutFront("abcdef", 3), "...");
}

TEST(Text, HasNoControls) {
  EXPECT_EQ(WithoutControls("a\nb\x1b[2J\x7f!"), "a b [2J !");
  EXPECT_EQ(WithoutControls("é\xc2\x9b m"), "é  m");  // CSI
  EXPECT_EQ(WithoutControls("\xc2\xa0\xc2"), "\xc2\xa0\xc2");
}

}  // namespace text_test
}  // namespace tensord
