// SPDX-License-Identifier: Apache-2.0
// How a graph becomes loops: what is computed within its readers and what is stored, what nobody
// computes, what collectives read, where numbers are rounded.
#include "compiler/decompose/lower_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/decompose/lowering.h"
#include "compiler/schedule/access.h"
#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace lower_graph_test {

using compiler::BufferKind;
using compiler::ExternOp;
using compiler::Program;
using lower_graph_testing::LibraryCalls;
using lower_graph_testing::Lower;
using lower_graph_testing::ValuesOf;
using ::testing::ElementsAre;

TEST(LowerGraphTest, JoinsInEagersLayout) {
  GraphBuilder g;
  const Ref x = g.Input({2, 3, 4, 4}, v1::DTYPE_FLOAT32, {48, 1, 12, 3});
  g.Output(g.Node("aten::cat", {List({x, x}), 1},
                  g.Meta({2, 6, 4, 4}, v1::DTYPE_FLOAT32, {96, 1, 24, 6})));
  // Each part is copied into its place, and that is all.
  EXPECT_EQ(Lower(g).operations.size(), 2u);
}

TEST(LowerGraphTest, AsStridedStaysInside) {
  GraphBuilder g;
  const Ref x = g.Input({6});
  g.Output(g.Node("aten::as_strided", {x, Ints({2, 2}), Ints({3, 1}), 1},
                  g.Meta({2, 2}, v1::DTYPE_FLOAT32, {3, 1}, 1)));
  EXPECT_THAT(ValuesOf(g, {MakeTensor({6}, {0, 1, 2, 3, 4, 5})}), ElementsAre(1, 2, 4, 5));
  GraphBuilder h;
  const Ref y = h.Input({6});
  h.Output(h.Node("aten::as_strided", {y, Ints({2, 2}), Ints({3, 1}), 2},
                  h.Meta({2, 2}, v1::DTYPE_FLOAT32, {3, 1}, 2)));
  // An input may be a part of what has that.
  EXPECT_THAT(LibraryCalls(Lower(h)), ElementsAre("aten::as_strided_copy"));
}

TEST(LowerGraphTest, ForeachIsAListOfPointwise) {
  GraphBuilder g;
  const Ref x = g.Input({2}), y = g.Input({3});
  const Ref sums =
      g.Node("aten::_foreach_add.Scalar", {List({x, y}), 1.5}, {g.Meta({2}), g.Meta({3})});
  g.Output(sums.result(1)).Output(sums);
  EXPECT_THAT(ValuesOf(g, {MakeTensor({2}, {1, 2}), MakeTensor({3}, {1, 2, 3})}),
              ElementsAre(2.5, 3.5, 4.5));
}

// Loops know no complex numbers: both parts of a product are stored by one, into neighbours.
TEST(LowerGraphTest, ComplexProductsAreLoopsOverParts) {
  GraphBuilder g;
  const v1::TensorMeta row = g.Meta({4}, v1::DTYPE_COMPLEX64);
  const Ref x = g.Input(row), y = g.Input(row);
  g.Output(g.Node("aten::mul.Tensor", {x, y}, row));
  const Program program = Lower(g);
  ASSERT_EQ(program.operations.size(), 1u);
  const auto& loop = std::get<compiler::LoopOp>(program.operations[0]);
  ASSERT_EQ(loop.stores.size(), 2u);
  EXPECT_EQ(loop.stores[1].index, loop.stores[0].index + 1);
  for (const compiler::BufferInfo& buffer : program.buffers) {
    EXPECT_EQ(buffer.dtype, v1::DTYPE_FLOAT32);
    EXPECT_EQ(buffer.sizes.size(), 2u);
    EXPECT_TRUE(buffer.is_complex);
  }
}

TEST(LowerGraphTest, LoweringNamesAreSortedAndUnique) {
  const std::vector<std::string> names = compiler::LoweringNames();
  EXPECT_GT(names.size(), 300u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, ::testing::Contains("aten::add.Tensor"));
}

// ---- Realization, dead code

TEST(LowerGraphTest, CheapChainsStayLazy) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::mul.Tensor", {x, x}, g.Meta({4}));
  const Ref z = g.Node("aten::add.Tensor", {y, y, 1}, g.Meta({4}));
  g.Node("aten::exp", {z}, g.Meta({4}));  // unused
  g.Output(g.Node("aten::neg", {z}, g.Meta({4})));
  EXPECT_EQ(Lower(g).operations.size(), 1u);
}

TEST(LowerGraphTest, ExpensiveValuesReadTwiceAreRealized) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::exp", {x}, g.Meta({4}));
  g.Output(g.Node("aten::neg", {y}, g.Meta({4})));
  g.Output(g.Node("aten::abs", {y}, g.Meta({4})));
  EXPECT_EQ(Lower(g).operations.size(), 3u);
}

// How many buffers of so many elements the program computes.
int64_t ComputedBuffers(const Program& program, int64_t elements) {
  return std::ranges::count_if(program.buffers, [&](const compiler::BufferInfo& buffer) {
    return buffer.kind == BufferKind::kComputed && sym::Product(buffer.sizes).Is(elements);
  });
}

// What a softmax of long rows reads is computed again on a GPU, where no block keeps such a row: in
// float32 it would be twice as large as the product that it is made of.
TEST(LowerGraphTest, BoundedLogitsOfLongRowsAreNotStored) {
  const auto computed_rows = [](v1::DeviceType device, int columns) {
    GraphBuilder g(device);
    const Shape sizes{8, columns};
    const v1::TensorMeta meta = g.Meta(sizes), narrow = g.Meta(sizes, v1::DTYPE_BFLOAT16);
    const Ref bounded = g.Node("aten::tanh", {g.Input(narrow)}, narrow);
    const Ref logs = g.Node("aten::_log_softmax", {bounded, 1, true}, meta);
    g.Output(g.Node("aten::select.int", {logs, 1, 3}, g.Meta({8}, v1::DTYPE_FLOAT32, {columns})));
    return ComputedBuffers(Lower(g), 8 * columns);
  };
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CUDA, 32000), 0);
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CUDA, 1000), 1);
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CPU, 32000), 1);
}

// Also where training reads them once more, for the loss.
TEST(LowerGraphTest, NorAreTheyWhereTheStatisticsAreSaved) {
  const auto computed_rows = [](int columns) {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Shape sizes{8, columns};
    const v1::TensorMeta meta = g.Meta(sizes), narrow = g.Meta(sizes, v1::DTYPE_BFLOAT16),
                         number = g.Meta({8, 1});
    const Ref bounded = g.Node("aten::tanh", {g.Input(narrow)}, narrow);
    const Ref wide =
        g.Node("aten::_to_copy",
               {bounded, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr, false, nullptr}, meta);
    const Ref both = g.Node("tensord::softmax_statistics", {wide, 1}, {number, number});
    const Ref centered = g.Node("aten::sub.Tensor", {wide, both.result(0), 1}, meta);
    g.Output(
        g.Node("aten::select.int", {centered, 1, 3}, g.Meta({8}, v1::DTYPE_FLOAT32, {columns})));
    return ComputedBuffers(Lower(g), 8 * columns);
  };
  EXPECT_EQ(computed_rows(32000), 0);
  EXPECT_EQ(computed_rows(1000), 1);
}

TEST(LowerGraphTest, LongChainsAreCut) {
  GraphBuilder g;
  Ref x = g.Input({4});
  for (int i = 0; i < 40; ++i) x = g.Node("aten::exp", {x}, g.Meta({4}));
  g.Output(x);
  const size_t operations = Lower(g).operations.size();
  EXPECT_GE(operations, 2u);
  EXPECT_LE(operations, 6u);
}

TEST(LowerGraphTest, EndlessViewsAreCut) {
  GraphBuilder g;
  const v1::TensorMeta meta = g.Meta({2, 3});
  Ref x = g.Node("aten::neg", {g.Input({2, 3})}, meta);
  for (int i = 0; i < 100'000; ++i) x = g.Node("aten::flip", {x, Ints({0, 1})}, meta);
  g.Output(x);
  const std::vector<double> result = ValuesOf(g, {MakeTensor({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(result, ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(LowerGraphTest, NothingRunsForEmptyTensors) {
  GraphBuilder g;
  const Ref x = g.Input(Shape{0, 3}), y = g.Input(Shape{5, 3});
  const Ref used_by_nothing = g.Node("aten::exp", {y}, g.Meta({5, 3}));
  const Ref part = g.Node("aten::slice.Tensor", {used_by_nothing, Arg(0), Arg(0), Arg(0), Arg(1)},
                          g.Meta({0, 3}));
  g.Output(g.Node("aten::mul.Tensor", {x, part}, g.Meta({0, 3})));
  EXPECT_TRUE(Lower(g).operations.empty());
  GraphBuilder h;  // a sum of nothing is zero
  h.Output(h.Node("aten::sum.dim_IntList", {h.Input(Shape{0, 3}), Ints({0}), false, nullptr},
                  h.Meta({3})));
  EXPECT_FALSE(Lower(h).operations.empty());
}

// ---- Collectives

// The buffers that the wait for a collective ends the reading of.
std::vector<compiler::BufferId> KeptFor(const char* collective) {
  GraphBuilder g;
  const Ref x = g.Node("aten::neg", {g.Input({4})}, g.Meta({4}));
  const Ref begun = g.Node(collective, {x, "sum", "0"}, g.Meta({4}));
  const Ref beside = g.Node("aten::exp", {x}, g.Meta({4}));
  const Ref waited = g.Node("_c10d_functional::wait_tensor", {begun}, g.Meta({4}));
  g.Output(g.Node("aten::add.Tensor", {waited, beside, 1}, g.Meta({4})));
  const Program program = Lower(g);
  for (const auto& operation : program.operations) {
    const auto* call = std::get_if<ExternOp>(&operation);
    if (call == nullptr || call->op != "_c10d_functional::wait_tensor") continue;
    const auto reads = compiler::AccessesOf(operation).reads;
    for (const auto id : call->ends_reading) EXPECT_EQ(reads.count(id), 1u);
    return call->ends_reading;
  }
  ADD_FAILURE() << "nothing waits";
  return {};
}

TEST(LowerGraphTest, WhatACollectiveReadsIsThereUntilItsWait) {
  EXPECT_EQ(KeptFor("_c10d_functional::reduce_scatter_tensor").size(), 1u);
  EXPECT_EQ(KeptFor("_c10d_functional::all_reduce").size(), 0u);  // it has copied it
}

// ---- Rounding

// How often narrow floats are rounded in all loops of x * 3 + x.sum().
int RoundingsWith(v1::DType dtype, compiler::LoweringOptions options) {
  GraphBuilder g;
  const Ref x = g.Input({8}, dtype);
  const Ref product = g.Node("aten::mul.Scalar", {x, 3.0}, g.Meta({8}, dtype));
  const Ref total = g.Node("aten::sum", {product, nullptr}, g.Meta({}, dtype));
  g.Output(g.Node("aten::add.Tensor", {product, total, 1}, g.Meta({8}, dtype)));
  const auto graph = VerifiedImport(g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto program = compiler::LowerGraph(*graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  int roundings = 0;
  for (const auto& operation : program->operations) {
    for (const auto& inst : std::get<compiler::LoopOp>(operation).block.insts) {
      roundings += inst.kind == compiler::InstKind::kRound ? 1 : 0;
    }
  }
  return roundings;
}

TEST(LowerGraphTest, ResultsAreRoundedWhereTheyAreStoredOrBehindEachNode) {
  EXPECT_EQ(RoundingsWith(v1::DTYPE_BFLOAT16, {}), 0);
  // The product where it is summed up and where it is added to; the sum; what is stored.
  EXPECT_EQ(RoundingsWith(v1::DTYPE_BFLOAT16, {.eager_rounding = true}), 4);
  EXPECT_EQ(RoundingsWith(v1::DTYPE_FLOAT32, {.eager_rounding = true}), 0);
}

}  // namespace lower_graph_test
}  // namespace tensord::testing
