// SPDX-License-Identifier: Apache-2.0
#include "compiler/sym/known.h"

#include <gtest/gtest.h>

namespace tensord::sym {
namespace {

const Expr s = Expr::Size(0, /*min=*/2, /*hint=*/8);
const Expr u = Expr::Size(1, /*min=*/0, /*hint=*/4096, /*from_data=*/true);

TEST(Known, HintsTellWhereGuardsHoldThem) {
  EXPECT_FALSE(DependsOnData(s * 2 + 1));
  EXPECT_TRUE(MayBeEqual(s, Expr(8)));
  EXPECT_FALSE(MayBeEqual(s, Expr(9)));
  EXPECT_TRUE(MayBeAtMost(s, Expr(8)));
  EXPECT_FALSE(MayBeAtMost(s, Expr(7)));
  EXPECT_EQ(IsLess(s, Expr(9)), true);
  EXPECT_EQ(IsLess(s, Expr(8)), false);
  EXPECT_FALSE(MayBeSize(s - 9));
  EXPECT_TRUE(IsOne(s - 7));
  EXPECT_FALSE(IsOne(u - 4095));
}

TEST(Known, DataTellsNothingButRanges) {
  EXPECT_TRUE(DependsOnData(FloorDiv(s + u, Expr(3))));
  EXPECT_TRUE(MayBeEqual(u, Expr(3)));
  EXPECT_TRUE(MayBeEqual(u * s, Expr(10)));
  EXPECT_FALSE(MayBeEqual(u, Expr(-1)));
  EXPECT_TRUE(MayBeAtMost(u, Expr(3)));
  EXPECT_FALSE(MayBeAtMost(u, Expr(-1)));
  EXPECT_EQ(IsNegative(u), false);
  EXPECT_EQ(IsLess(Expr(-1), u), true);
  EXPECT_EQ(IsLess(u, s), std::nullopt);
  EXPECT_EQ(IsNegative(u - 1), std::nullopt);
}

}  // namespace
}  // namespace tensord::sym
