// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/pad_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_products.h"
#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace pad_products_test {

using compiler::Graph;
using compiler::PaddingCosts;
using compiler::PadProducts;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr auto kHalf = v1::DTYPE_BFLOAT16;
// Small products pay, so that the interpreter is quick.
constexpr PaddingCosts kAlways{.least_work = 0, .flops_per_byte = 0};

// Pads, expects `count` padded products and equal results; gives the library calls.
std::vector<std::string> Padded(GraphBuilder& g, int count, Graph* after = nullptr) {
  const Graph before = Imported(g);
  Graph graph = before;
  EXPECT_EQ(PadProducts(kAlways, &graph), count);
  ExpectSameOutputs(before, graph, 0.01);
  if (after != nullptr) *after = graph;
  return LibraryCalls(MustLower(graph));
}

TEST(PadProductsTest, ColumnsOfTheResult) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), w = g.Input({34, 64}, kHalf);
  const Ref t = g.Node("aten::t", {w}, g.Meta({64, 34}, kHalf, {1, 64}));
  const Ref y = g.Node("aten::mm", {x, t}, g.Meta({32, 34}, kHalf));
  g.Output(g.Node("aten::relu", {y}, g.Meta({32, 34}, kHalf)));
  Graph graph;
  EXPECT_THAT(Padded(g, 1, &graph), ElementsAre("aten::mm 32/64x64/1 64/1x40/64"));
  // The weight, its zeros, and the ReLU, which reads a part of wider rows.
  EXPECT_EQ(LoopOperations(MustLower(graph)), 3);
}

TEST(PadProductsTest, OutputsKeepTheirStrides) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), w = g.Input({64, 35}, kHalf), b = g.Input({35}, kHalf);
  const Ref y = g.Node("aten::addmm", {b, x, w, 1, 1}, g.Meta({32, 35}, kHalf));
  g.Output(g.Node("aten::view", {y, Ints({4, 8, 35})}, g.Meta({4, 8, 35}, kHalf)));
  EXPECT_THAT(Padded(g, 1), ElementsAre("aten::addmm 40/1 32/64x64/1 64/40x40/1"));
}

// x @ w of 34 columns, read by a ReLU, and with rows of so many columns.
GraphBuilder ProductByPaddedRows(int64_t columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), w = g.Input({64, 34}, kHalf);
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({32, 34}, kHalf));
  g.Output(g.Node("aten::relu", {y}, g.Meta({32, 34}, kHalf)));
  g.Output(g.Node("tensord::padded_rows", {y, columns}, g.Meta({32, columns}, kHalf)));
  return g;
}

TEST(PadProductsTest, WhatIsWantedByPaddedRowsIsTheProduct) {
  GraphBuilder g = ProductByPaddedRows(40), other = ProductByPaddedRows(48);
  Graph graph;
  EXPECT_THAT(Padded(g, 1, &graph), ElementsAre("aten::mm 32/64x64/1 64/40x40/1"));
  // The weight, its zeros, and the ReLU.
  EXPECT_EQ(LoopOperations(MustLower(graph)), 3);
  // Rows of another length are a copy, and its zeros.
  EXPECT_THAT(Padded(other, 1, &graph), ElementsAre("aten::mm 32/64x64/1 64/40x40/1"));
  EXPECT_EQ(LoopOperations(MustLower(graph)), 5);
}

// ---- Large results that are given out

// Few rows of few elements are enough.
constexpr PaddingCosts kByRows{.least_work = 0,
                               .flops_per_byte = 0,
                               .least_equally_aligned_rows = 4,
                               .least_equally_aligned_elements = 1};

// A vocabulary, with a bias or without; the weight is converted, and may be given out too.
Graph Vocabulary(int64_t rows, int64_t columns, bool bias, bool weight_is_given_out = false) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({rows, 64}, kHalf), w = g.Input({columns, 64});
  const Ref b = g.Input({columns}, kHalf);
  const Ref half = g.Node("aten::_to_copy", {w, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                          g.Meta({columns, 64}, kHalf));
  const Ref t = g.Node("aten::t", {half}, g.Meta({64, columns}, kHalf, {1, 64}));
  const Ref y = bias ? g.Node("aten::addmm", {b, x, t, 1, 1}, g.Meta({rows, columns}, kHalf))
                     : g.Node("aten::mm", {x, t}, g.Meta({rows, columns}, kHalf));
  g.Output(g.Node("aten::view", {y, Ints({1, rows, columns})}, g.Meta({1, rows, columns}, kHalf)));
  g.Output(g.Node("aten::sum", {y, nullptr}, g.Meta({}, kHalf)));
  if (weight_is_given_out) g.Output(t);
  return Imported(g);
}

struct Part {
  int64_t rows, columns, row_stride;
  friend bool operator==(const Part&, const Part&) = default;
};

// The parts that the library writes into the result, all of which begin at whole vectors.
std::vector<Part> PartsOf(const Graph& before, const PaddingCosts& costs = kByRows) {
  Graph graph = before;
  EXPECT_EQ(PadProducts(costs, &graph), 1);
  ExpectSameOutputs(before, graph, 0.01);
  std::vector<Part> parts;
  for (const auto& operation : MustLower(graph).operations) {
    const auto* call = std::get_if<compiler::ExternOp>(&operation);
    if (call == nullptr) continue;
    const compiler::BufferView& out = call->outs.at(0);
    EXPECT_EQ(sym::Hint(out.offset) % 8, 0);
    EXPECT_EQ(sym::Hint(out.strides[0]) % 8, 0);
    parts.push_back({sym::Hint(out.sizes[0]), sym::Hint(out.sizes[1]), sym::Hint(out.strides[0])});
  }
  return parts;
}

TEST(PadProductsTest, LargeOutputsAreComputedByEquallyAlignedRows) {
  // The ends of all rows, and every eighth row; of odd rows that begin late 8 columns less fit.
  const Part ends{36, 16, 16}, last{4, 200, 8 * 201}, shorter{5, 192, 8 * 201};
  const Part first{5, 200, 8 * 201}, late{4, 192, 8 * 201};
  const auto odd = ElementsAre(ends, first, shorter, shorter, shorter, late, late, late, last);
  EXPECT_THAT(PartsOf(Vocabulary(36, 201, false)), odd);
  EXPECT_THAT(PartsOf(Vocabulary(36, 201, true)), odd);
  // Every fourth row of a multiple of two.
  const Part whole{9, 200, 4 * 202}, less{9, 192, 4 * 202};
  EXPECT_THAT(PartsOf(Vocabulary(36, 202, true)), ElementsAre(ends, whole, less, less, whole));
  // Backward may want the weight too.
  EXPECT_THAT(PartsOf(Vocabulary(36, 202, false, true)),
              ElementsAre(ends, whole, less, less, whole));
}

TEST(PadProductsTest, ALargeWeightIsConvertedInParts) {
  // 2048 columns and the rest; a row of the first part may begin 7 columns later.
  PaddingCosts costs = kByRows;
  costs.most_weight_bytes = 2048 * 64;  // twice that with several periods
  const Part ends{36, 16, 16}, whole{9, 2048, 4 * 2102}, rest{9, 48, 4 * 2102};
  EXPECT_THAT(PartsOf(Vocabulary(36, 2102, true), costs),
              ElementsAre(ends, whole, whole, whole, whole, rest, rest, rest, rest));
  EXPECT_THAT(PartsOf(Vocabulary(36, 2102, true, true), costs), SizeIs(5));
  // Rows that begin late have less than the first part's width left.
  const Part most{9, 2048, 4 * 2050}, less{9, 2040, 4 * 2050};
  EXPECT_THAT(PartsOf(Vocabulary(36, 2050, false), costs),
              ElementsAre(ends, most, less, less, most));
}

TEST(PadProductsTest, SoIsOneOfWholeVectors) {
  PaddingCosts costs = kByRows;
  costs.most_weight_bytes = 2 * 2048 * 64;
  const Part part{36, 2048, 4104}, rest{36, 8, 4104};
  EXPECT_THAT(PartsOf(Vocabulary(36, 4104, true), costs),
              ElementsAre(Part{36, 2048, 4104}, part, rest));
  EXPECT_THAT(PartsOf(Vocabulary(36, 4096, false), costs),
              ElementsAre(Part{36, 2048, 4096}, Part{36, 2048, 4096}));
  for (const bool fits : {false, true}) {
    costs.most_weight_bytes = fits ? 2 * 4096 * 64 : 2 * 2048 * 64;
    // What others read is in memory as a whole.
    Graph graph = Vocabulary(36, 4096, true, /*weight_is_given_out=*/!fits);
    EXPECT_EQ(PadProducts(costs, &graph), 0);
  }
}

// The same with rows from elsewhere: in float32, of a size that is known when it runs, computed;
// the weight a part of a parameter.
TEST(PadProductsTest, EquallyAlignedRowsOfOtherOperands) {
  const auto expect = [](GraphBuilder& g, size_t parts, PaddingCosts costs = kByRows) {
    const Graph before = Imported(g);
    Graph graph = before;
    EXPECT_EQ(PadProducts(costs, &graph), 1);
    ExpectSameOutputs(before, graph, 0.01);
    EXPECT_THAT(LibraryCalls(MustLower(graph)), SizeIs(1 + parts));
  };
  {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Ref x = g.Input({512, 512}), w = g.Input({514, 512});
    const Ref t = g.Node("aten::t", {w}, g.Meta({512, 514}, v1::DTYPE_FLOAT32, {1, 512}));
    g.Output(g.Node("aten::mm", {x, t}, g.Meta({512, 514})));
    expect(g, 2);
  }
  {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Dim rows = g.Symbol(64);
    const Ref x = g.Input({rows, 64}, kHalf), w = g.Input({3000, 64}, kHalf);
    const Ref y = g.Node("aten::relu", {x}, g.Meta({rows, 64}, kHalf));
    const Ref part = g.Node("aten::slice.Tensor", {w, 0, 3, 2054, 1}, g.Meta({2051, 64}, kHalf));
    const Ref t = g.Node("aten::t", {part}, g.Meta({64, 2051}, kHalf, {1, 64}));
    g.Output(g.Node("aten::mm", {y, t}, g.Meta({rows, 2051}, kHalf)));
    PaddingCosts costs = kByRows;
    costs.most_weight_bytes = 1 << 16;  // of what is converted, which this is not
    expect(g, 8, costs);
  }
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({64, 40}, kHalf), w = g.Input({201, 64}, kHalf);
  const Ref left = g.Node("aten::t", {x}, g.Meta({40, 64}, kHalf, {1, 40}));
  const Ref t = g.Node("aten::t", {w}, g.Meta({64, 201}, kHalf, {1, 64}));
  g.Output(g.Node("aten::mm", {left, t}, g.Meta({40, 201}, kHalf)));
  expect(g, 0);  // rows of what lies by columns are no matrix to the library
}

TEST(PadProductsTest, OthersArePaddedAsAWhole) {
  // Too few rows begin alike, or these have too few elements.
  for (const PaddingCosts& costs :
       {PaddingCosts{0, 0, /*least_equally_aligned_rows=*/5, /*least_equally_aligned_elements=*/1},
        PaddingCosts{0, 0, /*least_equally_aligned_rows=*/4,
                     /*least_equally_aligned_elements=*/1000}}) {
    Graph graph = Vocabulary(36, 201, false);
    EXPECT_EQ(PadProducts(costs, &graph), 1);
    EXPECT_THAT(LibraryCalls(MustLower(graph)), ElementsAre("aten::mm 36/64x64/1 64/1x208/64"));
  }
}

TEST(PadProductsTest, InnerDimension) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 35}, kHalf), w = g.Input({35, 64}, kHalf);
  g.Output(g.Node("aten::mm", {x, w}, g.Meta({32, 64}, kHalf)));
  EXPECT_THAT(Padded(g, 1), ElementsAre("aten::mm 32/40x40/1 40/64x64/1"));
}

TEST(PadProductsTest, RowsAndColumns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({33, 35}, kHalf, {1, 33}), w = g.Input({35, 37}, kHalf);
  const Ref u = g.Input({35, 37}, kHalf, {1, 35});
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({33, 37}, kHalf));
  const Ref z = g.Node("aten::mm", {x, u}, g.Meta({33, 37}, kHalf));
  g.Output(g.Node("aten::add.Tensor", {y, z, 1}, g.Meta({33, 37}, kHalf)));
  // The first product needs no longer inner dimension: no matrix has it in its rows.
  EXPECT_THAT(Padded(g, 2),
              ElementsAre("aten::mm 40/1x35/40 35/40x40/1", "aten::mm 40/1x40/40 40/1x40/40"));
}

// The backward of a vocabulary product: both products read one gradient, which is computed into
// wide rows at once.
TEST(PadProductsTest, OneGradientForTwoProducts) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref e = g.Input({32, 35}), x = g.Input({32, 64}, kHalf), w = g.Input({35, 64}, kHalf);
  const Ref s = g.Node("aten::_softmax", {e, 1, false}, g.Meta({32, 35}));
  const Ref grad = g.Node("aten::_to_copy", {s, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                          g.Meta({32, 35}, kHalf));
  const Ref dx = g.Node("aten::mm", {grad, w}, g.Meta({32, 64}, kHalf));
  const Ref t = g.Node("aten::t", {grad}, g.Meta({35, 32}, kHalf, {1, 35}));
  const Ref dw = g.Node("aten::mm", {t, x}, g.Meta({35, 64}, kHalf));
  const Ref db =
      g.Node("aten::sum.dim_IntList", {grad, Ints({0}), false, nullptr}, g.Meta({35}, kHalf));
  g.Output(dx).Output(dw).Output(db);
  Graph graph;
  EXPECT_THAT(Padded(g, 2, &graph),
              ElementsAre("aten::mm 32/40x40/1 40/64x64/1", "aten::mm 40/1x32/40 32/64x64/1"));
  int unpadded = 0, padded = 0;
  for (const auto& buffer : MustLower(graph).buffers) {
    if (buffer.dtype != kHalf || buffer.sizes.size() != 2 || !buffer.sizes[0].Is(32)) continue;
    unpadded += buffer.sizes[1].Is(35);
    padded += buffer.sizes[1].Is(40);
  }
  EXPECT_EQ(unpadded, 0);
  EXPECT_EQ(padded, 1);
}

TEST(PadProductsTest, AWeightIsPaddedOnce) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), y = g.Input({40, 64}, kHalf), w = g.Input({34, 64});
  const Ref half = g.Node("aten::_to_copy", {w, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                          g.Meta({34, 64}, kHalf));
  const Ref t = g.Node("aten::t", {half}, g.Meta({64, 34}, kHalf, {1, 64}));
  const Ref u = g.Node("aten::permute", {half, Ints({1, 0})}, g.Meta({64, 34}, kHalf, {1, 64}));
  const Ref a = g.Node("aten::mm", {x, t}, g.Meta({32, 34}, kHalf));
  const Ref b = g.Node("aten::mm", {y, u}, g.Meta({40, 34}, kHalf));
  g.Output(g.Node("aten::neg", {a}, g.Meta({32, 34}, kHalf)));
  g.Output(g.Node("aten::neg", {b}, g.Meta({40, 34}, kHalf)));
  Graph graph;
  EXPECT_THAT(Padded(g, 2, &graph),
              ElementsAre("aten::mm 32/64x64/1 64/1x40/64", "aten::mm 40/64x64/1 64/1x40/64"));
  EXPECT_EQ(LoopOperations(MustLower(graph)), 4);  // cast, zeros, two negations
}

// Rows behind the last one change no strides: what is given out is a part of the padded matrix.
TEST(PadProductsTest, OutputsMayBePartsOfPaddedMatrices) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), w = g.Input({34, 64});
  const Ref half = g.Node("aten::_to_copy", {w, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                          g.Meta({34, 64}, kHalf));
  const Ref t = g.Node("aten::t", {half}, g.Meta({64, 34}, kHalf, {1, 64}));
  const Ref y = g.Node("aten::mm", {x, t}, g.Meta({32, 34}, kHalf));
  g.Output(g.Node("aten::relu", {y}, g.Meta({32, 34}, kHalf))).Output(t);
  Graph graph;
  EXPECT_THAT(Padded(g, 1, &graph), ElementsAre("aten::mm 32/64x64/1 64/1x40/64"));
  EXPECT_EQ(LoopOperations(MustLower(graph)), 3);  // cast, zeros, ReLU
}

// Attention with an odd length, not fused: the scores' rows and the probabilities' rows.
TEST(PadProductsTest, Batches) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref q = g.Input({2, 33, 64}, kHalf), k = g.Input({2, 33, 64}, kHalf),
            v = g.Input({2, 33, 64}, kHalf);
  const Ref t = g.Node("aten::transpose.int", {k, 1, 2}, g.Meta({2, 64, 33}, kHalf, {2112, 1, 64}));
  const Ref s = g.Node("aten::bmm", {q, t}, g.Meta({2, 33, 33}, kHalf));
  const Ref p = g.Node("aten::_softmax", {s, 2, false}, g.Meta({2, 33, 33}, kHalf));
  g.Output(g.Node("aten::bmm", {p, v}, g.Meta({2, 33, 64}, kHalf)));
  EXPECT_THAT(Padded(g, 2), ElementsAre("aten::bmm 2/2112x33/64x64/1 2/2560x64/1x40/64",
                                        "aten::bmm 2/1320x33/40x40/1 2/2560x40/64x64/1"));
}

// A layer of what has three dimensions and is no matrix: torch's matmul expands the weight.
TEST(PadProductsTest, OneMatrixForABatchIsPaddedOnce) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4, 64, 33}, kHalf), w = g.Input({40, 33}, kHalf);
  const Ref t = g.Node("aten::t", {w}, g.Meta({33, 40}, kHalf, {1, 33}));
  const Ref all =
      g.Node("aten::expand", {t, Ints({4, 33, 40}), false}, g.Meta({4, 33, 40}, kHalf, {0, 1, 33}));
  g.Output(g.Node("aten::bmm", {x, all}, g.Meta({4, 64, 40}, kHalf)));
  EXPECT_THAT(Padded(g, 1), ElementsAre("aten::bmm 4/2560x64/40x40/1 4/0x40/1x40/40"));
}

// An operand that lies by columns, and products that feed products.
TEST(PadProductsTest, ColumnMajorInputsAndChains) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({33, 64}, kHalf, {1, 33}), w = g.Input({64, 35}, kHalf, {1, 64});
  const Ref z = g.Input({35, 64}, kHalf);
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({33, 35}, kHalf));
  g.Output(g.Node("aten::mm", {y, z}, g.Meta({33, 64}, kHalf)));
  g.Output(g.Node("aten::neg", {y}, g.Meta({33, 35}, kHalf)));
  EXPECT_THAT(Padded(g, 2),
              ElementsAre("aten::mm 40/1x64/40 64/1x40/64", "aten::mm 33/40x40/1 40/64x64/1"));
}

TEST(PadProductsTest, SymbolicRows) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Dim s = g.Symbol(48);
  const Ref x = g.Input({s, 64}, kHalf), w = g.Input({64, 35}, kHalf);
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({s, 35}, kHalf));
  g.Output(g.Node("aten::relu", {y}, g.Meta({s, 35}, kHalf)));
  EXPECT_THAT(Padded(g, 1), ElementsAre("aten::mm s0/64x64/1 64/40x40/1"));
  GraphBuilder h(v1::DEVICE_TYPE_CUDA);
  const Dim k = h.Symbol(48);
  const Ref a = h.Input({64, k}, kHalf), b = h.Input({k, 35}, kHalf);
  h.Output(h.Node("aten::mm", {a, b}, h.Meta({64, 35}, kHalf)));
  Padded(h, 0);
}

TEST(PadProductsTest, AlignedOrShortOrOtherTypesStay) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({64, 64}, kHalf), w = g.Input({64, 72}, kHalf), v = g.Input({64, 7}, kHalf);
  g.Output(g.Node("aten::mm", {x, w}, g.Meta({64, 72}, kHalf)));
  g.Output(g.Node("aten::mm", {x, v}, g.Meta({64, 7}, kHalf)));
  Padded(g, 0);
  GraphBuilder h(v1::DEVICE_TYPE_CUDA);
  const Ref a = h.Input({64, 64}), b = h.Input({64, 35});
  h.Output(h.Node("aten::mm", {a, b}, h.Meta({64, 35})));
  Padded(h, 0);
}

// A product beside a GPU's program belongs to the CPU's library, which knows no padding of ours.
TEST(PadProductsTest, OtherDevicesStay) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const auto on_cpu = [&](const Shape& sizes) {
    v1::TensorMeta meta = g.Meta(sizes, kHalf);
    meta.set_device(v1::DEVICE_TYPE_CPU);
    return meta;
  };
  const Ref x = g.Input(on_cpu({64, 64})), w = g.Input(on_cpu({64, 35})), y = g.Input({4});
  g.Output(g.Node("aten::mm", {x, w}, on_cpu({64, 35})));
  g.Output(g.Node("aten::neg", {y}, g.Meta({4})));
  Graph graph = Imported(g);
  EXPECT_EQ(PadProducts(kAlways, &graph), 0);
}

// ---- What pays

// rows x inner times inner x columns, read by something of ours or given out.
int Pays(int rows, int inner, int columns, bool output, v1::DType dtype = kHalf) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({rows, inner}, dtype), w = g.Input({inner, columns}, dtype);
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({rows, columns}, dtype));
  if (output) {
    g.Output(y);
  } else {
    g.Output(
        g.Node("aten::sum.dim_IntList", {y, Ints({0}), false, nullptr}, g.Meta({columns}, dtype)));
  }
  Graph graph = Imported(g);
  return PadProducts(PaddingCosts{}, &graph);
}

TEST(PadProductsTest, OnlyWhereItPays) {
  EXPECT_EQ(Pays(8192, 768, 30522, true), 1);
  EXPECT_EQ(Pays(8192, 768, 30522, false), 1);
  EXPECT_EQ(Pays(128, 768, 1001, true), 0);   // too little work
  EXPECT_EQ(Pays(8192, 64, 30522, true), 0);  // the copy of the output takes longer
  EXPECT_EQ(Pays(8192, 64, 30522, false), 1);
  EXPECT_EQ(Pays(8192, 768, 30522, true, v1::DTYPE_FLOAT32), 1);
  EXPECT_EQ(Pays(1024, 768, 1001, true, v1::DTYPE_FLOAT32), 0);
}

// Large sizes become multiples of 64.
TEST(PadProductsTest, LargeSizes) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({8192, 768}, kHalf), w = g.Input({50257, 768}, kHalf);
  const Ref t = g.Node("aten::t", {w}, g.Meta({768, 50257}, kHalf, {1, 768}));
  const Ref y = g.Node("aten::mm", {x, t}, g.Meta({8192, 50257}, kHalf));
  g.Output(g.Node("aten::sum.dim_IntList", {y, Ints({0}), false, nullptr}, g.Meta({50257}, kHalf)));
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  Graph graph = Imported(g);
  std::vector<std::string> notes = RunRewrites(target, &graph);
  EXPECT_THAT(notes, ElementsAre("pad_products: 1"));
  EXPECT_THAT(LibraryCalls(MustLower(graph)),
              ElementsAre("aten::mm 8192/768x768/1 768/1x50304/768"));
  v1::Target cpu;
  cpu.mutable_cpu()->set_isa(v1::ISA_AVX2);
  Graph same = Imported(g);
  notes = RunRewrites(cpu, &same);
  EXPECT_THAT(notes, ElementsAre());
}

// One padded copy serves the products that read the same, not those behind a write.
TEST(PadProductsTest, PadsAgainWhatWasWritten) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 35}, kHalf), w = g.Input({35, 64}, kHalf);
  const Ref next = g.Node("aten::neg", {x}, g.Meta({32, 35}, kHalf));
  const Ref before = g.Node("aten::mm", {x, w}, g.Meta({32, 64}, kHalf));
  const Ref copied = g.Node("aten::copy_", {x, next, false}, g.Meta({32, 35}, kHalf));
  g.Output(before).Output(g.Node("aten::mm", {x, w}, g.Meta({32, 64}, kHalf)));
  g.Output(g.Node("aten::mm", {copied, w}, g.Meta({32, 64}, kHalf)));
  Padded(g, 3);
}

}  // namespace pad_products_test
}  // namespace tensord::testing
