// SPDX-License-Identifier: Apache-2.0
// Which kind of schedule a CUDA nest has, why others are not for it, and the parameters that follow
// from its sizes and the target.
#include <gmock/gmock.h>

#include "tests/unit/schedule/cuda_planned.h"

namespace tensord::testing {
namespace cuda_kinds_test {

using compiler::CudaColumnGroups;
using compiler::CudaColumns;
using compiler::CudaElements;
using compiler::CudaRows;
using compiler::CudaScanRows;
using compiler::CudaSplit;
using compiler::CudaSweep;
using compiler::CudaTiles;
using compiler::RowAccess;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr v1::DType kI64 = v1::DTYPE_INT64;

GraphBuilder Doubled(const Shape& sizes, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype);
  return g.Output(g.Node("aten::mul.Scalar", {x, 2}, g.Meta(sizes, dtype)));
}
// x + y.t()
GraphBuilder PlusTransposed(int rows, int columns) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({rows, columns});
  const Ref x = g.Input(meta), y = g.Input({columns, rows});
  const Ref t = g.Node("aten::t", {y}, g.Meta({rows, columns}, kF32, {1, rows}));
  return g.Output(g.Node("aten::add.Tensor", {x, t, 1}, meta));
}
// Each row less its own number.
GraphBuilder LessOfRow(const Shape& sizes, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta(sizes, dtype);
  const Ref x = g.Input(meta), y = g.Input({sizes[0], 1}, dtype);
  return g.Output(g.Node("aten::sub.Tensor", {x, y, 1}, meta));
}
// What is of columns: four vectors, beside one of rows.
GraphBuilder ManyOfColumns(const Shape& sizes) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta(sizes);
  Ref result = g.Input(meta);
  std::vector<Ref> columns;
  for (int i = 0; i < 4; ++i) columns.push_back(g.Input(Shape{sizes[1]}));
  for (const Ref& column : columns) result = g.Node("aten::mul.Tensor", {result, column}, meta);
  return g.Output(result);
}

TEST(CudaKinds, ElementsTakeWhatIsPointwise) {
  const Planned planned(Doubled({64, 64}));
  EXPECT_EQ(planned.As<CudaElements>().vectors_per_thread, 1);
  EXPECT_EQ(planned.plan().width, 4);
  EXPECT_EQ(planned.plan().blocks.AsConstant(), 64 * 64 / 4 / 256);
  EXPECT_EQ(planned.WhyNot("elements"), "");
  EXPECT_EQ(planned.WhyNot("rows"), "");  // the last to be asked
  EXPECT_THAT(planned.WhyNot("tiles"), HasSubstr("no two loops"));
  EXPECT_THAT(planned.WhyNot("split"), HasSubstr("no parts to combine"));
  EXPECT_THAT(planned.WhyNot("sweep"), HasSubstr("reduces nothing over its rows"));
  EXPECT_THAT(planned.WhyNot("columns"), HasSubstr("do not run in blocks"));
}

TEST(CudaKinds, TilesTakeWhatLiesAcross) {
  const Planned planned(PlusTransposed(128, 192), 1);
  const auto& tiles = planned.As<CudaTiles>();
  EXPECT_EQ(tiles.along, 64);
  EXPECT_EQ(tiles.across, 64);
  ASSERT_EQ(tiles.operands.size(), 1u);
  EXPECT_EQ(tiles.operands[0].run, 4);
  EXPECT_EQ(tiles.shared_bytes, 64 * 64 * 4);
  EXPECT_EQ(planned.plan().blocks.AsConstant(), 2 * 3);
  EXPECT_EQ(planned.WhyNot("elements"), "");  // asked later
  EXPECT_THAT(Planned(PlusTransposed(24, 16)).WhyNot("tiles"), HasSubstr("as long as a tile's"));
}

TEST(CudaKinds, RowsTakeWhatIsReducedAlongThem) {
  const Planned planned(Softmax({40, 768}));
  const auto& rows = planned.As<CudaRows>();
  EXPECT_EQ(rows.group.threads * rows.group.register_vectors * planned.plan().width, 768);
  EXPECT_EQ(rows.group.access, RowAccess::kAligned);
  EXPECT_FALSE(rows.loops);
  EXPECT_FALSE(rows.column_tiles);
  EXPECT_THAT(planned.WhyNot("elements"), HasSubstr("not pointwise"));
  EXPECT_THAT(planned.WhyNot("tiles"), HasSubstr("not pointwise"));
  EXPECT_THAT(planned.WhyNot("sweep"), HasSubstr("reduces nothing over its rows"));
}

TEST(CudaKinds, RowsOfOddLengthHaveOtherVectors) {
  EXPECT_EQ(Planned(Softmax({9, 1537})).plan().access(), RowAccess::kInterleaved);
  EXPECT_EQ(Planned(Sum({9, 1537}, 1, kBF16)).plan().access(), RowAccess::kUnaligned);
  const Planned peeled(LessOfRow({9, 3001}, kBF16));
  EXPECT_EQ(peeled.plan().access(), RowAccess::kPeeled);
  EXPECT_EQ(peeled.plan().width, 8);
  EXPECT_THAT(peeled.WhyNot("elements"), HasSubstr("wide only within its rows"));
  // Short rows have no room for it.
  EXPECT_EQ(Planned(Softmax({9, 129})).plan().access(), RowAccess::kAligned);
}

TEST(CudaKinds, RowsThatFindNoRoomInRegistersLieInSharedMemory) {
  const Planned planned(Softmax({3, 40000}));
  for (const compiler::PlannedCudaNest& nest : planned.kernel().nests) {
    EXPECT_EQ(nest.plan.register_vectors(), 0) << ToString(nest.plan);
    EXPECT_FALSE(nest.plan.loops_rows()) << ToString(nest.plan);
  }
}

TEST(CudaKinds, PointwiseNestsThatLoadMoreForColumnsTakeTilesOfThem) {
  const Planned planned(ManyOfColumns({300, 256}));
  const auto& rows = planned.As<CudaRows>();
  EXPECT_TRUE(rows.column_tiles);
  EXPECT_TRUE(rows.loops);
  EXPECT_THAT(planned.WhyNot("elements"), HasSubstr("more for its columns"));
  EXPECT_THAT(planned.WhyNot("tiles"), HasSubstr("more for its columns"));
}

TEST(CudaKinds, SweepsTakeWhatIsReducedOverRows) {
  const Planned planned(Sum({300, 96}, 0));
  const auto& sweep = planned.As<CudaSweep>();
  EXPECT_TRUE(sweep.column_tiles);
  EXPECT_EQ(sweep.group.register_vectors, 1);
  EXPECT_TRUE(sweep.finish);  // a second launch combines the copies
  EXPECT_FALSE(sweep.prefetches);
  // One tile of 24 vectors, 32 threads wide, for which all blocks go over rows.
  EXPECT_EQ(planned.plan().blocks, sweep.copies);
  EXPECT_THAT(planned.WhyNot("rows"), HasSubstr("reduces over rows"));
  EXPECT_THAT(planned.WhyNot("split"), HasSubstr("reduces over rows"));
}

TEST(CudaKinds, SplitTakesFewLongRows) {
  const Planned planned(Sum({2, 40000}, 1), 132);
  EXPECT_GT(planned.As<CudaSplit>().parts, 1);
  EXPECT_EQ(planned.plan().blocks.AsConstant(), 2 * planned.As<CudaSplit>().parts);
  EXPECT_TRUE(planned.plan().combines_in_last_block());
  EXPECT_THAT(Planned(Sum({1, 512}, 1), 132).WhyNot("split"), HasSubstr("rows are short"));
  EXPECT_THAT(Planned(Sum({500, 40000}, 1), 132).WhyNot("split"), HasSubstr("enough for the"));
  EXPECT_THAT(Planned(Softmax({40, 768})).WhyNot("split"), HasSubstr("needs the whole row"));
}

TEST(CudaKinds, ColumnsTakeFewRows) {
  const Planned planned(Sum({24, 512}, 0));
  EXPECT_TRUE(planned.plan().Is<CudaColumns>());
  EXPECT_EQ(planned.plan().blocks.AsConstant(), 1);
  EXPECT_EQ(planned.plan().G(), 1);
}

// Stacks of matrices, each summed over its rows.
GraphBuilder SumInside(const Shape& sizes) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes);
  return g.Output(g.Node("aten::sum.dim_IntList", {x, Ints({1}), false, nullptr},
                         g.Meta({sizes[0], sizes[2]})));
}

TEST(CudaKinds, ColumnGroupsTakeFewColumnsOfManyRows) {
  const Planned planned(SumInside({16, 768, 196}), 132);
  const auto& groups = planned.As<CudaColumnGroups>();
  EXPECT_EQ(planned.plan().width, 4);
  EXPECT_EQ(groups.columns, 4);  // 64 bytes, which several blocks need not share
  EXPECT_EQ(groups.parts, 1);
  EXPECT_EQ(planned.plan().blocks.AsConstant(), 16 * 13);
  EXPECT_EQ(groups.combine_bytes, 256 / 2 * 4 * 4);
  EXPECT_FALSE(planned.plan().combines_in_last_block());
  // Blocks share columns where there are fewer of them than multiprocessors want.
  const Planned parts(SumInside({16, 12544, 32}), 132);
  EXPECT_GT(parts.As<CudaColumnGroups>().parts, 1);
  EXPECT_TRUE(parts.plan().combines_in_last_block());
  EXPECT_GE(parts.plan().blocks.AsConstant(), 132);
  EXPECT_THAT(Planned(SumInside({16, 24, 196}), 132).WhyNot("column-groups"),
              HasSubstr("few rows"));
  EXPECT_THAT(Planned(SumInside({4096, 64, 196}), 132).WhyNot("column-groups"),
              HasSubstr("columns enough"));
  EXPECT_THAT(Planned(Sum({16, 768}, 1), 132).WhyNot("column-groups"),
              HasSubstr("do not run in blocks"));
}

GraphBuilder Cumulative(const std::string& op, const Shape& sizes, int dim, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype);
  return g.Output(g.Node(op, {x, dim, nullptr}, g.Meta(sizes, dtype)));
}
GraphBuilder CumulativeSum(const Shape& sizes, int dim, v1::DType dtype = kF32) {
  return Cumulative("aten::cumsum", sizes, dim, dtype);
}

TEST(CudaKinds, ScanRowsTakeWhatIsScannedAlongThem) {
  const Planned planned(CumulativeSum({40, 4096}, 1));
  const auto& rows = planned.As<CudaScanRows>();
  EXPECT_EQ(rows.group.threads * rows.group.register_vectors * planned.plan().width, 4096);
  EXPECT_TRUE(rows.loads_first);
  EXPECT_THAT(planned.WhyNot("columns"), HasSubstr("do not run in blocks"));
  EXPECT_THAT(planned.WhyNot("sweep"), HasSubstr("reduces nothing over its rows"));
  for (const char* kind : {"split", "rows"}) {
    EXPECT_THAT(planned.WhyNot(kind), HasSubstr("it scans")) << kind;
  }
  for (const char* kind : {"tiles", "elements"}) {
    EXPECT_THAT(planned.WhyNot(kind), HasSubstr("not pointwise")) << kind;
  }
  EXPECT_THAT(Planned(Softmax({40, 768})).WhyNot("scan-rows"), HasSubstr("scans nothing"));
}

TEST(CudaKinds, ScannedRowsThatFindNoRoomInRegistersComeByAFewVectorsAThread) {
  const Planned planned(CumulativeSum({40, 50257}, 1));
  const auto& rows = planned.As<CudaScanRows>();
  EXPECT_EQ(rows.group.register_vectors, 0);
  EXPECT_EQ(rows.group.vectors_in_flight, 8);
  EXPECT_EQ(rows.group.threads, 1024);
}

TEST(CudaKinds, ColumnsTakeWhatIsScannedAcrossThem) {
  const Planned planned(CumulativeSum({4096, 8192}, 0));
  EXPECT_EQ(planned.As<CudaColumns>().rows_in_flight, 4);
  EXPECT_EQ(planned.plan().width, 4);
  EXPECT_THAT(planned.WhyNot("scan-rows"), HasSubstr("no rows"));
  // Vectors would leave multiprocessors without columns.
  const Planned spread(CumulativeSum({100, 8192}, 0), 132);
  EXPECT_EQ(spread.plan().width, 1);
  EXPECT_EQ(spread.As<CudaColumns>().rows_in_flight, 64);
  EXPECT_EQ(spread.plan().blocks.AsConstant(), 8192 / 32);
  // Longer ones are cut into parts.
  const Planned parts(CumulativeSum({4096, 8192}, 0), 132);
  EXPECT_EQ(parts.plan().width, 4);
  EXPECT_EQ(parts.As<CudaColumns>().parts, 16);
  EXPECT_EQ(parts.As<CudaColumns>().rows_in_flight, 16);
  EXPECT_EQ(parts.plan().blocks.AsConstant(), 8192 / 4 * 16 / 128);
  const Planned many(CumulativeSum({4096, 32768}, 0), 132);
  EXPECT_EQ(many.As<CudaColumns>().parts, 1);
}

// So many that each multiprocessor has blocks, which all have vectors.
TEST(CudaKinds, FewLongRowsAreScannedInParts) {
  const auto parts = [](int rows, int columns) {
    return Planned(CumulativeSum({rows, columns}, 1), 132).As<CudaScanRows>().parts;
  };
  EXPECT_EQ(parts(4, 1000000), 132);
  EXPECT_EQ(parts(4, 40000), 9);
  EXPECT_EQ(parts(66, 1000000), 8);
  EXPECT_EQ(parts(67, 1000000), 1);
  EXPECT_EQ(parts(4, 32764), 1);
  // That of a part may be infinite where every prefix is zero.
  const Planned products(Cumulative("aten::cumprod", {4, 1000000}, 1, kF32), 132);
  EXPECT_EQ(products.As<CudaScanRows>().parts, 1);
}

// A thread for each would leave most of the machine idle.
TEST(CudaKinds, FewLongColumnsAreScannedAsRows) {
  EXPECT_TRUE(Planned(CumulativeSum({4096, 64}, 0), 132).plan().Is<CudaScanRows>());
  EXPECT_TRUE(Planned(CumulativeSum({100, 64}, 0), 132).plan().Is<CudaColumns>());
  EXPECT_TRUE(Planned(CumulativeSum({2000, 512}, 0), 132).plan().Is<CudaScanRows>());
  EXPECT_TRUE(Planned(CumulativeSum({2048, 512}, 0), 132).plan().Is<CudaColumns>());
  const Planned products(Cumulative("aten::cumprod", {2048, 512}, 0, kF32), 132);
  EXPECT_TRUE(products.plan().Is<CudaScanRows>());
}

TEST(CudaKinds, StructurallyEqualNestsShareAFunction) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({64}), y = g.Input({512}), z = g.Input({256});
  g.Output(g.Node("aten::mul.Scalar", {x, 2}, g.Meta({64})));
  g.Output(g.Node("aten::mul.Scalar", {y, 2}, g.Meta({512})));
  // A constant that differs in its last bit.
  g.Output(g.Node("aten::mul.Scalar", {z, 2.0000002384185791}, g.Meta({256})));
  const Planned planned(std::move(g));
  ASSERT_EQ(planned.kernel().nests.size(), 3u);
  EXPECT_THAT(planned.kernel().shared_functions, ElementsAre(ElementsAre(0u, 1u)));
  EXPECT_TRUE(std::get<CudaElements>(planned.plan(1).kind).serves_many);
  EXPECT_FALSE(std::get<CudaElements>(planned.plan(2).kind).serves_many);
  EXPECT_EQ(planned.kernel().threads, 256);
  EXPECT_THAT(ToString(planned.kernel()), HasSubstr("nests 0, 1 share a function"));
}

// Their streams are arguments.
TEST(CudaKinds, RandomNumbersOfDifferentStreamsShareAFunction) {
  GraphBuilder g(kCuda);
  const Ref seed = g.Input(Shape{}, kI64);
  for (const int stream : {0, 1}) {
    const int size = stream == 0 ? 64 : 512;
    g.Output(g.Node("tensord::philox_uniform", {seed, Ints({size}), kF32, kCuda, stream},
                    g.Meta({size})));
  }
  const Planned planned(std::move(g));
  ASSERT_EQ(planned.kernel().nests.size(), 2u);
  EXPECT_THAT(planned.kernel().shared_functions, ElementsAre(ElementsAre(0u, 1u)));
}

TEST(CudaKinds, SmallLaunchesWaitForThoseBefore) {
  EXPECT_TRUE(Planned(Doubled({64, 64})).kernel().waits);
  EXPECT_FALSE(Planned(Doubled({4096, 4096})).kernel().waits);
}

TEST(CudaKinds, SymbolicSizesNeedWideIndices) {
  EXPECT_FALSE(Planned(Doubled({64, 64})).kernel().wide_index);
  GraphBuilder g(kCuda);
  const Dim s = g.Symbol(1000);
  const Ref x = g.Input({s});
  g.Output(g.Node("aten::neg", {x}, g.Meta({s})));
  EXPECT_TRUE(Planned(std::move(g)).kernel().wide_index);
}

}  // namespace cuda_kinds_test
}  // namespace tensord::testing
