// SPDX-License-Identifier: Apache-2.0
// Rows on CUDA: how threads share them, and that the numbers are what the loop IR says.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/codegen/cuda_rows_testing.h"
#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace cuda_rows_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CudaRows, Softmax) {
  ExpectPlansAndNumbers({
      {"64", Softmax({13, 64}), {"rows w4 t32 g16 c1"}},
      {"64 narrow", Softmax({13, 64, kBF16}), {"rows w8 t32 g8 c1"}},
      {"768", Softmax({9, 768}), {"rows w4 t64 g64 c3"}},
      {"768 narrow", Softmax({9, 768, kBF16}), {"rows w8 t64 g32 c3"}},
      {"few of 768", Softmax({3, 768}), {"rows w4 t64 g64 c3"}},
      {"1537", Softmax({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"1537 narrow", Softmax({3, 1537, kBF16}), {"rows w8 t64 g64 c4 interleaved"}},
      {"4096", Softmax({3, 4096}), {"rows w4 t256 g256 c4"}},
      {"5001", Softmax({3, 5001}), {"rows w4 t320 g320 c4 interleaved"}},
      {"5001 narrow", Softmax({3, 5001, kBF16}), {"rows w8 t160 g160 c4 interleaved"}},
      {"40001",
       Softmax({2, 40001}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved"}},
      {"40001 narrow",
       Softmax({2, 40001, kBF16}),
       {"rows w8 t1024 g1024 c0 unaligned", "rows w4 t512 g512 c0 peeled",
        "rows w4 t1024 g1024 c0 interleaved", "rows w4 t512 g512 c0 peeled"}},
      {"16001", Softmax({2, 16001}), {"rows w4 t1024 g1024 c0 interleaved"}},
      {"16000 narrow", Softmax({2, 16000, kBF16}), {"rows w8 t512 g512 c4"}},
      {"logarithm of 64", LogSoftmax({13, 64, kBF16}), {"rows w8 t32 g8 c1"}},
      {"logarithm of 1537", LogSoftmax({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"logarithm of 4096", LogSoftmax({3, 4096, kBF16}), {"rows w8 t128 g128 c4"}},
      {"logarithm of 40001",
       LogSoftmax({2, 40001}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved"}},
  });
}

TEST(CudaRows, Norms) {
  ExpectPlansAndNumbers({
      {"64", LayerNorm({13, 64}), {"rows w4 t32 g16 c1"}},
      {"768", LayerNorm({9, 768}), {"rows w4 t64 g64 c3"}},
      {"768 narrow", LayerNorm({9, 768, kBF16}), {"rows w8 t64 g32 c3"}},
      {"1537", LayerNorm({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"1537 narrow", LayerNorm({3, 1537, kBF16}), {"rows w8 t64 g64 c4 interleaved"}},
      {"4096 narrow", LayerNorm({3, 4096, kBF16}), {"rows w8 t128 g128 c4"}},
      {"5001", LayerNorm({3, 5001}), {"rows w4 t320 g320 c4 interleaved"}},
      {"40001",
       LayerNorm({2, 40001}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved"}},
      {"40001 narrow",
       LayerNorm({2, 40001, kBF16}),
       {"rows w8 t1024 g1024 c0 unaligned", "rows w8 t512 g512 c0 peeled"}},
      {"16001", LayerNorm({2, 16001, kBF16}), {"rows w8 t512 g512 c4 interleaved"}},
      {"root mean square of 64", RmsNorm({13, 64, kBF16}), {"rows w8 t32 g8 c1"}},
      {"root mean square of 768", RmsNorm({3, 768}), {"rows w4 t64 g64 c3"}},
      {"root mean square of 1537", RmsNorm({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"root mean square of 4096", RmsNorm({3, 4096}), {"rows w4 t256 g256 c4"}},
      {"root mean square of 40001",
       RmsNorm({2, 40001, kBF16}),
       {"rows w8 t1024 g1024 c0 unaligned", "rows w8 t512 g512 c0 peeled"}},
      {"dropout", DropoutLayerNorm({3, 768, kBF16}), {"rows w8 t64 g64 c2"}},
      {"dropout odd", DropoutLayerNorm({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"dropout small and odd", DropoutLayerNorm({7, 65}), {"rows w1 t64 g64 c2"}},
  });
}

TEST(CudaRows, Reductions) {
  ExpectPlansAndNumbers({
      {"sum of 64", Sum({13, 64}), {"rows w4 t32 g16 c1"}},
      {"sum of 1537", Sum({3, 1537, kBF16}), {"rows w8 t64 g64 c4 unaligned"}},
      {"sum of 4096", Sum({3, 4096}), {"rows w4 t256 g256 c4"}},
      {"sum of 40001", Sum({3, 40001}), {"rows w4 t1024 g1024 c0 interleaved"}},
      {"mean of 768", Mean({9, 768, kBF16}), {"rows w8 t64 g32 c3"}},
      {"mean of 5001", Mean({3, 5001}), {"rows w4 t320 g320 c4 interleaved"}},
      {"maximum of 64", Max({13, 64, kBF16}), {"rows w8 t32 g8 c1"}},
      {"maximum of 1537", Max({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"maximum of 40001", Max({3, 40001, kBF16}), {"rows w8 t1024 g1024 c0 unaligned"}},
      {"place of 64", ArgMax({13, 64}), {"rows w4 t32 g16 c1"}},
      {"place of 768", ArgMax({3, 768, kBF16}), {"rows w8 t64 g64 c2"}},
      {"place of 1537", ArgMax({3, 1537}), {"rows w1 t416 g416 c4"}},
      {"place of 40001", ArgMax({3, 40001}), {"rows w1 t1024 g1024 c0"}},
  });
}

TEST(CudaRows, Symbolic) {
  const auto columns = [](int hint, v1::DType dtype = kF32) {
    return Rows{3, Symbol(0), dtype, 0, {hint}};
  };
  const auto rows = [](int columns, v1::DType dtype = kF32) {
    return Rows{Symbol(0), columns, dtype, 0, {1000}};
  };
  std::vector<CudaCase> cases{
      {"softmax", Softmax(columns(700)), {"rows w1 t1024 g1024 c0"}},
      {"softmax long", Softmax(columns(5000)), {"rows w4 t1024 g1024 c0 interleaved"}},
      {"softmax longer than thought", Softmax(columns(40, kBF16)), {"rows w1 t1024 g1024 c0"}},
      {"logarithm", LogSoftmax(columns(5000, kBF16)), {"rows w8 t1024 g1024 c0 interleaved"}},
      {"norm", LayerNorm(columns(1500)), {"rows w4 t1024 g1024 c0 interleaved"}},
      {"gradient",
       LogSoftmaxBackward(columns(3000, kBF16)),
       {"rows w8 t1024 g1024 c0 interleaved"}},
      {"sum", Sum(columns(3000)), {"rows w4 t1024 g1024 c0 interleaved"}},
      {"place", ArgMax(columns(3000)), {"rows w1 t1024 g1024 c0"}},
      {"rows of 768", Softmax(rows(768, kBF16)), {"rows w8 t128 g32 c3"}},
      {"rows of 65", LayerNorm(rows(65)), {"rows w1 t128 g32 c3"}},
  };
  const int64_t sizes[] = {699, 5003, 1100, 2049, 1536, 1030, 1025, 3001, 7, 11};
  for (size_t i = 0; i < cases.size(); ++i) cases[i].symbols = {{0, sizes[i]}};
  ExpectPlansAndNumbers(cases);
}

// Rows that are no whole vectors, at any place: what is stored is aligned, what is loaded need not
// be. Sizes may turn out shorter than what comes before the first aligned element.
TEST(CudaRows, Peeled) {
  const Rows symbolic{5, Symbol(0), kBF16, 0, {3001}};
  std::vector<CudaCase> cases;
  for (const int64_t size : {2, 3, 7, 8, 20, 3001}) {
    cases.push_back({absl::StrCat(size), Scaled(symbolic), {"rows w8 t128 g128 c0 peeled"}});
    cases.back().symbols = {{0, size}};
  }
  // Where each goes says a tensor of its own.
  cases.push_back(
      {"put",
       PutTwice(4, 3001),
       {"elements w4 t256 g1 c0", "elements w4 t256 g1 c0", "rows w8 t96 g96 c4 interleaved"}});
  cases.back().classes = 4;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaRows, Partial) {
  ExpectPlansAndNumbers({
      {"softmax",
       Softmax({3, 1530, kF32, 1536}),
       {"rows w4 t256 g256 c2 partial", "elements w2 t256 g1 c0"}},
      {"softmax narrow",
       Softmax({3, 1530, kBF16, 1536}),
       {"rows w8 t256 g256 c1 partial", "elements w2 t256 g1 c0"}},
      {"softmax long",
       Softmax({2, 20002, kBF16, 20008}),
       {"rows w8 t256 g256 c10 partial", "elements w2 t256 g1 c0", "elements w2 t256 g1 c0",
        "rows w2 t1024 g1024 c10", "elements w2 t256 g1 c0"}},
      {"norm",
       LayerNorm({3, 1530, kF32, 1536}),
       {"rows w4 t256 g256 c2 partial", "elements w2 t256 g1 c0"}},
      {"norm narrow",
       LayerNorm({3, 1530, kBF16, 1536}),
       {"rows w8 t256 g256 c1 partial", "elements w2 t256 g1 c0"}},
      {"norm long",
       LayerNorm({2, 20002, kF32, 20008}),
       {"rows w4 t256 g256 c20 partial", "elements w2 t256 g1 c0",
        "rows w4 t1024 g1024 c5 partial"}},
      {"loss",
       CrossEntropy({3, 1530, kF32, 1536}, false),
       {"sweep w4 t256 g32 c12 partial loops last-block", "rows w1 t256 g4 c1",
        "elements w1 t256 g1 c0"}},
      {"loss narrow",
       CrossEntropy({3, 1530, kBF16, 1536}, false),
       {"sweep w8 t256 g32 c6 partial loops last-block", "rows w1 t256 g4 c1",
        "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"loss long",
       CrossEntropy({2, 20002, kBF16, 20008}, false),
       {"sweep w8 t256 g256 c10 partial loops last-block", "rows w2 t256 g1 c1",
        "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"loss and logarithms",
       CrossEntropy({3, 1530, kF32, 1536}),
       {"rows w2 t256 g256 c3", "rows w1 t256 g4 c1", "elements w2 t256 g1 c0", "rows w1 t32 g4 c1",
        "elements w1 t256 g1 c0"}},
      {"loss and logarithms narrow",
       CrossEntropy({3, 1530, kBF16, 1536}),
       {"rows w8 t256 g256 c1 interleaved", "rows w1 t256 g4 c1", "elements w2 t256 g1 c0",
        "rows w1 t256 g4 c1", "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"loss and logarithms long",
       CrossEntropy({2, 20002, kBF16, 20008}),
       {"rows w8 t256 g256 c10 partial", "rows w2 t256 g1 c1", "elements w2 t256 g1 c0",
        "rows w8 t256 g256 c10 interleaved", "elements w1 t256 g1 c0", "rows w2 t32 g1 c1",
        "elements w1 t256 g1 c0"}},
      {"gradient",
       CrossEntropyBackward({3, 1530, kF32, 1536}),
       {"rows w4 t256 g256 c2 partial", "elements w2 t256 g1 c0"}},
      {"gradient narrow",
       CrossEntropyBackward({3, 1530, kBF16, 1536}),
       {"rows w8 t256 g256 c1 partial", "elements w2 t256 g1 c0"}},
      {"gradient long",
       CrossEntropyBackward({2, 20002, kBF16, 20008}),
       {"rows w8 t256 g256 c10 partial", "elements w2 t256 g1 c0"}},
  });
}

// A warp finds its row and has all of it under way before it stores the first of it. Loads that
// differ in nothing but the tensors that say where are two.
TEST(CudaRows, FoundByLoads) {
  std::vector<CudaCase> cases{
      {"of a table", RowsOfTable(40, 256), {"rows w4 t256 g32 c2 loads-first"}},
      {"odd", RowsOfTable(40, 130), {"rows w2 t256 g32 c3 loads-first"}},
      {"rolled", RowsOfTable(40, 256, true), {"rows w4 t256 g32 c2 loads-first"}},
  };
  for (CudaCase& c : cases) c.classes = 9;
  ExpectPlansAndNumbers(cases);
}

// What fills the cache more than twice is written past what is read.
TEST(CudaRows, LargerThanTheCache) {
  const GraphBuilder norm = RmsNorm({40, 256}), gradient = GradientOfStatistics({3, 8192, kBF16});
  CudaCase large{.name = "norm", .graph = norm, .plans = {"rows w4 t128 g32 c2 evicts-loads-last"}};
  CudaCase first{.name = "loads first",
                 .graph = gradient,
                 .plans = {"rows w8 t128 g128 c8 loads-first evicts-loads-last"}};
  large.l2_bytes = first.l2_bytes = 16 << 10;
  CudaCase fits = large, unknown = large;
  fits.l2_bytes = 32 << 10, unknown.l2_bytes = 0;
  fits.plans = unknown.plans = {"rows w4 t128 g32 c2"};
  ExpectPlansAndNumbers({large, first, fits, unknown});
  EXPECT_THAT(CallsOf(KernelsOf(large)[0]), Contains("load_evict_last"));
  EXPECT_THAT(CallsOf(KernelsOf(first)[0]), Contains("load_evict_last_packed"));
  EXPECT_THAT(CallsOf(KernelsOf(fits)[0]), Not(Contains(HasSubstr("evict_last"))));
}

// Scalars of a long row are computed once for many vectors.
TEST(CudaRows, SavedStatistics) {
  ExpectPlansAndNumbers({
      {"8192", GradientOfStatistics({3, 8192, kBF16}), {"rows w8 t128 g128 c8 loads-first"}},
      {"30528", GradientOfStatistics({2, 30528, kBF16}), {"rows w8 t480 g480 c8 loads-first"}},
      {"wide", GradientOfStatistics({2, 8192}), {"rows w4 t256 g256 c8 loads-first"}},
      {"rolled",
       GradientOfStatistics({3, 8192, kBF16}, true, true),
       {"rows w8 t128 g128 c8 loads-first"}},
      {"short", GradientOfStatistics({3, 4096, kBF16}), {"elements w8 t256 g1 c0"}},
      {"few", GradientOfStatistics({1, 40000, kBF16}), {"elements w8 t256 g1 c0"}},
      {"odd", GradientOfStatistics({3, 8193, kBF16}), {"rows w8 t128 g128 c0 peeled"}},
      {"all in one", GradientOfStatistics({3, 4096, kBF16}, false), {"rows w8 t128 g128 c4"}},
  });
}

TEST(CudaRows, ComputedAgain) {
  ExpectPlansAndNumbers({
      {"bounded",
       OfBounded("aten::_log_softmax", {2, 20000, kBF16}),
       {"rows w8 t1024 g1024 c0", "elements w4 t256 g1 c0"}},
      {"bounded probabilities",
       OfBounded("aten::_softmax", {2, 20001, kBF16}),
       {"rows w8 t1024 g1024 c0 unaligned", "rows w4 t512 g512 c0 peeled",
        "rows w4 t1024 g1024 c5 interleaved", "rows w4 t1024 g1024 c5 interleaved"}},
      {"dense of 768", LogSoftmaxBackward({9, 768, kBF16}), {"rows w8 t64 g32 c3"}},
      {"dense of 1537", LogSoftmaxBackward({3, 1537}), {"rows w4 t128 g128 c4 interleaved"}},
      {"dense of 4096", LogSoftmaxBackward({3, 4096}), {"rows w4 t256 g256 c4"}},
      {"dense of 40001",
       LogSoftmaxBackward({2, 40001}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved"}},
      {"dense of 40000",
       LogSoftmaxBackward({2, 40000, kBF16}),
       {"rows w8 t1024 g1024 c0", "elements w8 t256 g1 c0"}},
      {"dense of 16000 in a loop", LogSoftmaxBackward({2, 16000}), {"rows w4 t1024 g1024 c0"}},
      {"dense of 16001 in a loop",
       LogSoftmaxBackward({2, 16001}),
       {"rows w4 t1024 g1024 c0 interleaved"}},
      {"one of 64", CrossEntropyBackward({13, 64}, 0.5), {"rows w4 t32 g16 c1"}},
      {"one of 1530",
       CrossEntropyBackward({3, 1530, kBF16, 1536}, 0.5),
       {"rows w8 t256 g256 c1 partial", "elements w2 t256 g1 c0"}},
      {"one of 1537",
       CrossEntropyBackward({3, 1537, kBF16}, 0.5),
       {"rows w8 t64 g64 c4 interleaved"}},
      {"one of 40001",
       CrossEntropyBackward({2, 40001}, 0.5),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "rows w4 t1024 g1024 c0 interleaved"}},
      {"one of 20002",
       CrossEntropyBackward({2, 20002, kF32, 20008}, 0.5),
       {"elements w2 t256 g1 c0", "elements w2 t256 g1 c0", "rows w2 t1024 g1024 c10",
        "elements w2 t256 g1 c0"}},
  });
}

// The norm of a row by the sum of what stands in its place behind a concatenation: two loads of one
// element, of which one is held back.
GraphBuilder NormAroundCat(int columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({2, 5, columns}), other = g.Input({2, 1, columns});
  const Ref weight = g.Input({columns}), bias = g.Input({columns});
  const v1::TensorMeta first = g.Meta({2, 1, columns}, kF32, {5 * columns, columns, 1});
  const auto norm = [&](const Ref& rows, int count) {
    return g.Node("aten::native_layer_norm", {rows, Ints({columns}), weight, bias, 1e-5},
                  {g.Meta({2, count, columns}), g.Meta({2, count, 1}), g.Meta({2, count, 1})});
  };
  const Ref rest = g.Node("aten::slice.Tensor", {x, 1, 1, 5, 1},
                          g.Meta({2, 4, columns}, kF32, {5 * columns, columns, 1}, columns));
  const Ref joined = g.Node("aten::cat", {List({other, rest}), 1}, g.Meta({2, 5, columns}));
  g.Output(norm(joined, 5));
  const Ref before = g.Node("aten::slice.Tensor", {x, 1, 0, 1, 1}, first);
  const Ref behind = g.Node("aten::slice.Tensor", {joined, 1, 0, 1, 1}, first);
  const Ref normed = norm(before, 1);
  const Ref sum =
      g.Node("aten::sum.dim_IntList", {behind, Ints({2}), true, nullptr}, g.Meta({2, 1, 1}));
  return g.Output(g.Node("aten::mul.Tensor", {normed, sum}, g.Meta({2, 1, columns})));
}

TEST(CudaRows, WhatAGuardHoldsBackIsNotKept) {
  ExpectPlansAndNumbers(
      {{"96", NormAroundCat(96), {"rows w4 t256 g32 c1", "rows w4 t256 g32 c1"}}});
}

}  // namespace cuda_rows_test
}  // namespace tensord::testing
