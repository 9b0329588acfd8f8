// SPDX-License-Identifier: Apache-2.0
// CUDA kernels that reduce over rows, or over parts of rows and columns, that add at indices and
// that choose between parts: their plans, and that the numbers are what the loop IR says.
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DType kI64 = v1::DTYPE_INT64;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;
constexpr const char* kSum = "aten::sum.dim_IntList";
constexpr const char* kMax = "aten::amax";
constexpr const char* kPlace = "aten::argmax";
constexpr const char* kSpread = "aten::var_mean.correction";

// The gradient before a GELU and the bias's, its sum over rows. `stride`: of the rows in memory.
GraphBuilder GeluBackward(const Dim& rows, const Dim& columns, v1::DType dtype = kF32,
                          int stride = 0) {
  GraphBuilder g(kCuda);
  const Shape sizes{rows, columns}, strides = stride == 0 ? Shape{} : Shape{stride, 1};
  const Ref grad = g.Input(sizes, dtype, strides), x = g.Input(sizes, dtype, strides);
  const Ref y = g.Node("aten::gelu_backward", {grad, x, "none"}, g.Meta(sizes, dtype));
  g.Output(
      g.Node("aten::sum.dim_IntList", {y, Ints({0}), false, nullptr}, g.Meta({columns}, dtype)));
  if (stride == 0) return g.Output(y);
  return g.Output(
      g.Node("tensord::zero_padded", {y, Ints({rows, stride})}, g.Meta({rows, stride}, dtype)));
}
// Of a dimension that other dimensions follow; as a sum, a maximum or a variance.
GraphBuilder Columns(const std::string& op, const Shape& sizes, int dim, v1::DType dtype = kF32,
                     const Shape& strides = {}) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype, strides);
  Shape rest = sizes;
  rest.erase(rest.begin() + dim);
  std::vector<Arg> args{x, Ints({dim}), false};
  if (op == kSum) args.push_back(nullptr);
  if (op == kPlace) {
    return g.Output(g.Node(op, {x, dim, false}, g.Meta(rest, kI64)));
  }
  if (op == kSpread) {
    args = {x, Ints({dim}), 1, false};
    const Ref r = g.Node(op, args, {g.Meta(rest, dtype), g.Meta(rest, dtype)});
    return g.Output(r).Output(r.result(1));
  }
  return g.Output(g.Node(op, args, g.Meta(rest, dtype)));
}
GraphBuilder SumOver(const Shape& sizes, int dim, v1::DType dtype = kF32,
                     const Shape& strides = {}) {
  return Columns(kSum, sizes, dim, dtype, strides);
}
GraphBuilder LastOf(const std::string& op, int rows, int columns, v1::DType dtype = kF32) {
  return Columns(op, {rows, columns}, 1, dtype);
}

// A softmax and the sum of its products with other numbers.
GraphBuilder SoftmaxTotal(const Dim& rows, const Dim& columns, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({rows, columns}, dtype);
  const Ref x = g.Input(meta), y = g.Input(meta);
  const Ref p = g.Node("aten::_softmax", {x, 1, false}, meta);
  const Ref product = g.Node("aten::mul.Tensor", {p, y}, meta);
  return g.Output(g.Node("aten::sum", {product, nullptr}, g.Meta(Shape{}, dtype))).Output(p);
}
// The mean loss of log_softmax, and what one row of it makes.
GraphBuilder Loss(const Dim& rows, const Dim& columns, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({rows, columns}, dtype), target = g.Input({rows}, kI64);
  const Ref y = g.Node("aten::_log_softmax", {x, 1, false}, g.Meta({rows, columns}, dtype));
  const Ref loss = g.Node("aten::nll_loss_forward", {y, target, nullptr, 1, -100},
                          {g.Meta(Shape{}, dtype), g.Meta(Shape{}, dtype)});
  return g.Output(loss).Output(loss.result(1));
}
// A total of all elements, the columns' maxima and the rows' sums.
GraphBuilder ThreeWays(const Dim& rows, const Dim& columns, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({rows, columns}, dtype);
  const Ref square = g.Node("aten::mul.Tensor", {x, x}, g.Meta({rows, columns}, dtype));
  g.Output(g.Node("aten::sum", {square, nullptr}, g.Meta(Shape{}, dtype)));
  g.Output(g.Node(kMax, {x, Ints({0}), false}, g.Meta({columns}, dtype)));
  return g.Output(g.Node(kSum, {x, Ints({1}), false, nullptr}, g.Meta({rows}, dtype)));
}
// Two totals of a flat tensor.
GraphBuilder Totals(const Dim& elements, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({elements}, dtype), total = g.Meta(Shape{}, dtype);
  const Ref x = g.Input(meta), y = g.Input(meta);
  const Ref d = g.Node("aten::sub.Tensor", {x, y, 1}, meta);
  const Ref square = g.Node("aten::mul.Tensor", {d, d}, meta);
  g.Output(g.Node("aten::mean", {square, nullptr}, total));
  return g.Output(g.Node("aten::amax", {d, List({}), false}, total));
}

GraphBuilder LogSoftmax(const Dim& rows, const Dim& columns, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({rows, columns}, dtype);
  return g.Output(g.Node("aten::_log_softmax", {x, 1, false}, g.Meta({rows, columns}, dtype)));
}

// What is left, the mask, and the random numbers as integers.
GraphBuilder Dropout(const Shape& sizes, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype), seed = g.Input(Shape{}, kI64);
  const Ref words =
      g.Node("tensord::philox_uniform", {seed, Ints(sizes), kF32, kCuda, 3}, g.Meta(sizes));
  const Ref keep = g.Node("aten::ge.Scalar", {words, 0.1}, g.Meta(sizes, v1::DTYPE_BOOL));
  const Ref kept = g.Node("aten::mul.Tensor", {x, keep}, g.Meta(sizes, dtype));
  return g.Output(g.Node("aten::mul.Scalar", {kept, 1 / 0.9}, g.Meta(sizes, dtype)))
      .Output(keep)
      .Output(g.Node("aten::_to_copy",
                     {g.Node("aten::mul.Scalar", {words, 0x1p24}, g.Meta(sizes)), kI64, nullptr,
                      nullptr, nullptr, false, nullptr},
                     g.Meta(sizes, kI64)));
}

// Parts side by side, plus something of the whole's size.
GraphBuilder Joined(int rows, const std::vector<int>& parts, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  int columns = 0;
  std::vector<Arg> inputs;
  for (int part : parts) {
    inputs.emplace_back(g.Input({rows, part}, dtype));
    columns += part;
  }
  const v1::TensorMeta meta = g.Meta({rows, columns}, dtype);
  const Ref whole = g.Input(meta);
  const Ref joined = g.Node("aten::cat", {List(inputs), 1}, meta);
  return g.Output(g.Node("aten::add.Tensor", {joined, whole, 1}, meta));
}
GraphBuilder Padded(int rows, int columns, int before, int after, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({rows, columns}, dtype);
  const v1::TensorMeta meta = g.Meta({rows, before + columns + after}, dtype);
  const Ref whole = g.Input(meta);
  const Ref padded = g.Node("aten::constant_pad_nd", {x, Ints({before, after}), 1.5}, meta);
  return g.Output(g.Node("aten::mul.Tensor", {padded, whole}, meta));
}
// An image in blocks of 2x2 pixels of 4 channels, channels-last: padded, split and turned.
GraphBuilder Blocks(int channels, v1::DType dtype, bool channels_last) {
  GraphBuilder g(kCuda);
  const int rows = 10, columns = 14;
  const Shape sizes{2, channels, rows - 4, columns - 3};
  const Shape whole{2, 4, rows, columns};
  const Shape last{(rows - 4) * (columns - 3) * channels, 1, (columns - 3) * channels, channels};
  const Ref x = g.Input(sizes, dtype, channels_last ? last : Shape{});
  const Ref half = g.Node("prims::convert_element_type", {x, kBF16}, g.Meta(sizes, kBF16));
  const Ref padded = g.Node("aten::constant_pad_nd",
                            {half, Ints({1, 2, 3, 1, 0, 4 - channels}), 0.0}, g.Meta(whole, kBF16));
  const Shape split{2, 4, rows / 2, 2, columns / 2, 2};
  const Ref parts = g.Node("aten::view", {padded, Ints(split)}, g.Meta(split, kBF16));
  const Shape turned{2, rows / 2, columns / 2, 2, 2, 4};
  const int pixels = rows * columns;
  const Ref blocks =
      g.Node("aten::permute", {parts, Ints({0, 2, 4, 3, 5, 1})},
             g.Meta(turned, kBF16, {4 * pixels, 2 * columns, 2, columns, 1, pixels}));
  return g.Output(
      g.Node("aten::clone", {blocks, v1::MEMORY_FORMAT_CONTIGUOUS}, g.Meta(turned, kBF16)));
}

GraphBuilder EmbeddingBackward(int tokens, int columns, v1::DType dtype, int padding = -1) {
  GraphBuilder g(kCuda);
  const Ref grad = g.Input({tokens, columns}, dtype), indices = g.Input({tokens}, kI64);
  return g.Output(g.Node("aten::embedding_dense_backward", {grad, indices, 9, padding, false},
                         g.Meta({9, columns}, dtype)));
}

// A table so large by its hint that every row is written once.
GraphBuilder LargeEmbeddingBackward(int tokens, int columns, v1::DType dtype, int padding = -1,
                                    v1::DType index = kI64) {
  GraphBuilder g(kCuda);
  const Dim rows = g.Symbol(/*hint=*/1 << 24);
  const Ref grad = g.Input({tokens / 2, 2, columns}, dtype);
  const Ref indices = g.Input({tokens / 2, 2}, index);
  g.SizeInput(rows);
  return g.Output(g.Node("aten::embedding_dense_backward", {grad, indices, rows, padding, false},
                         g.Meta({rows, columns}, dtype)));
}

// A step of Adam, with the step's number on the device.
GraphBuilder Adam(int elements) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({elements}), one = g.Meta(Shape{});
  const Ref p = g.Input(meta), grad = g.Input(meta), m = g.Input(meta), v = g.Input(meta);
  const Ref step = g.Input(one);
  const auto rest = [&](double beta) {
    const Ref power = g.Node("aten::pow.Scalar", {beta, step}, one);
    return g.Node("aten::rsub.Scalar", {power, 1, 1}, one);
  };
  const Ref rest1 = rest(0.9), rest2 = g.Node("aten::sqrt", {rest(0.999)}, one);
  const Ref m1 = g.Node("aten::lerp.Scalar", {m, grad, 0.1}, meta);
  const Ref square = g.Node("aten::mul.Tensor", {grad, grad}, meta);
  const Ref v1 = g.Node("aten::lerp.Scalar", {g.Node("aten::abs", {v}, meta), square, 0.001}, meta);
  const Ref root = g.Node("aten::div.Tensor", {g.Node("aten::sqrt", {v1}, meta), rest2}, meta);
  const Ref mean = g.Node("aten::div.Tensor", {m1, rest1}, meta);
  const Ref below = g.Node("aten::add.Scalar", {root, 1e-8, 1}, meta);
  const Ref move = g.Node("aten::div.Tensor", {mean, below}, meta);
  return g.Output(g.Node("aten::sub.Tensor", {p, move, 0.01}, meta)).Output(m1).Output(v1);
}

TEST(CudaSweeps, Columns) {
  std::vector<CudaCase> cases{
      {"activation of 768", GeluBackward(77, 768), {"sweep w4 t256 g32 c1 column-tiles loops"}},
      {"activation of 1000 narrow",
       GeluBackward(77, 1000, kBF16),
       {"sweep w8 t256 g32 c1 column-tiles loops"}},
      {"activation of 1530 apart",
       GeluBackward(65, 1530, kF32, 1536),
       {"sweep w4 t256 g32 c1 partial column-tiles loops", "elements w2 t256 g1 c0"}},
      {"activation of 1530 apart narrow",
       GeluBackward(65, 1530, kBF16, 1536),
       {"sweep w8 t256 g32 c1 partial column-tiles loops", "elements w2 t256 g1 c0"}},
      {"activation of 1537",
       GeluBackward(65, 1537),
       {"sweep w4 t256 g32 c1 interleaved column-tiles loops"}},
      {"sum over rows", SumOver({300, 96}, 0), {"sweep w4 t256 g32 c1 column-tiles loops"}},
      {"sum over rows narrow",
       SumOver({300, 768}, 0, kBF16),
       {"sweep w8 t256 g32 c1 column-tiles loops"}},
      {"sum over rows apart",
       SumOver({133, 1530}, 0, kBF16, {1536, 1}),
       {"sweep w8 t256 g32 c1 partial column-tiles loops"}},
      {"sum in the middle", SumOver({3, 24, 96}, 1), {"columns w4 t128 g1 c0"}},
      {"sum in the middle odd", SumOver({5, 20, 33}, 1, kBF16), {"columns w1 t128 g1 c0"}},
      {"spread in the middle", Columns(kSpread, {3, 50, 64}, 1), {"rows w1 t128 g32 c2"}},
      {"place in the middle", Columns(kPlace, {3, 50, 64}, 1), {"rows w1 t128 g32 c2"}},
      {"maximum in the middle", Columns(kMax, {3, 24, 96}, 1, kBF16), {"columns w8 t128 g1 c0"}},
      {"spread over rows",
       Columns(kSpread, {70, 64}, 0),
       {"sweep w4 t256 g16 c1 column-tiles loops"}},
      {"spread over rows narrow",
       Columns(kSpread, {700, 24}, 0, kBF16),
       {"sweep w8 t256 g4 c1 column-tiles loops"}},
      {"wide spread over rows",
       Columns(kSpread, {70, 64}, 0, v1::DTYPE_FLOAT64),
       {"sweep w2 t256 g32 c1 column-tiles loops"}},
      {"spread over rows apart",
       Columns(kSpread, {133, 1530}, 0, kBF16, {1536, 1}),
       {"sweep w8 t256 g32 c1 partial column-tiles loops"}},
      {"spread over odd rows",
       Columns(kSpread, {99, 1537}, 0),
       {"sweep w4 t256 g32 c1 interleaved column-tiles loops"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

// On a large device every few rows have a copy of the columns, each at an aligned place.
TEST(CudaSweeps, CopiesOfColumns) {
  std::vector<CudaCase> cases{
      {"sum",
       SumOver({133, 1537}, 0, kBF16),
       {"sweep w8 t256 g32 c1 unaligned column-tiles loops"}},
      {"sum apart",
       SumOver({133, 1530}, 0, kBF16, {1536, 1}),
       {"sweep w8 t256 g32 c1 partial column-tiles loops"}},
      {"spread",
       Columns(kSpread, {133, 1537}, 0, kBF16),
       {"sweep w8 t256 g32 c1 unaligned column-tiles loops"}},
      {"spread wide",
       Columns(kSpread, {133, 1537}, 0),
       {"sweep w4 t256 g32 c1 interleaved column-tiles loops"}},
  };
  for (CudaCase& c : cases) {
    c.multiprocessors = 132;
    c.slack = 5e-3;
  }
  ExpectPlansAndNumbers(cases);
}

// Eight times what one nest needs would be more than a block may have.
TEST(CudaSweeps, NestsOfOneLaunchShareMemory) {
  constexpr int kMany = 8, kMostShared = 48 << 10;
  GraphBuilder g(kCuda);
  std::vector<Ref> inputs;
  for (int i = 0; i < kMany; ++i) inputs.push_back(g.Input({133 + i, 1537}, kBF16));
  const v1::TensorMeta row = g.Meta({1537}, kBF16);
  for (const Ref& x : inputs) {
    const Ref r = g.Node(kSpread, {x, Ints({0}), 1, false}, {row, row});
    g.Output(r).Output(r.result(1));
  }
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_target()->mutable_cuda()->set_sm(90);
  job.mutable_target()->mutable_cuda()->set_multiprocessors(132);
  compiler::CompileState state{.job = &job};
  ASSERT_TRUE(compiler::RunPipeline(state).ok());
  const compiler::ir::Kernel& kernel = state.kernels[0].ir;
  EXPECT_EQ(SharedArraysOf(kernel), std::vector<std::string>(kMany, "tile")) << ToString(kernel);
  for (const v1::Step& step : state.result.artifact().steps()) {
    EXPECT_LE(step.launch().cuda().shared_bytes(), kMostShared);
  }
}

TEST(CudaSweeps, Totals) {
  ExpectPlansAndNumbers({
      {"softmax of 768", SoftmaxTotal(9, 768), {"sweep w4 t128 g32 c6 loops last-block"}},
      {"softmax of 1537",
       SoftmaxTotal(5, 1537, kBF16),
       {"sweep w8 t128 g32 c7 interleaved loops last-block"}},
      {"softmax of 4096", SoftmaxTotal(5, 4096, kBF16), {"sweep w8 t128 g128 c4 loops last-block"}},
      {"loss of 64",
       Loss(40, 64),
       {"sweep w4 t256 g16 c1 loops last-block", "rows w2 t256 g32 c1", "elements w1 t256 g1 c0"}},
      {"loss of 1537",
       Loss(5, 1537, kBF16),
       {"sweep w8 t256 g32 c7 unaligned loops last-block", "rows w1 t256 g8 c1",
        "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"loss of 4096",
       Loss(5, 4096),
       {"sweep w4 t256 g32 c32 loops last-block", "rows w1 t256 g8 c1", "elements w1 t256 g1 c0"}},
      {"loss of 40001",
       Loss(3, 40001),
       {"sweep w4 t256 g256 c0 interleaved loops last-block", "rows w1 t256 g4 c1",
        "elements w1 t256 g1 c0"}},
      {"three ways", ThreeWays(67, 8192), {"sweep w4 t512 g512 c4 loops prefetches"}},
      {"three ways, few columns", ThreeWays(67, 2048), {"sweep w4 t128 g32 c16 loops"}},
      {"flat", Totals(20000), {"sweep w4 t256 g1 c0 loops last-block", "elements w1 t256 g1 c0"}},
      {"flat odd",
       Totals(9999, kBF16),
       {"split w1 t256 g256 c0 parts8 last-block", "elements w1 t256 g1 c0"}},
  });
}

TEST(CudaSweeps, Symbolic) {
  std::vector<CudaCase> cases{
      {"totals of rows", SoftmaxTotal(S(), 768), {"sweep w4 t128 g32 c6 loops last-block"}},
      {"totals of columns",
       SoftmaxTotal(5, S(), kBF16),
       {"sweep w1 t256 g256 c0 loops last-block"}},
      {"loss",
       Loss(S(), 1000, kBF16),
       {"sweep w8 t128 g32 c4 loops last-block", "elements w1 t256 g1 c0",
        "elements w1 t256 g1 c0"}},
      {"flat",
       Totals(S()),
       {"rows w1 t256 g256 c0", "rows w1 t256 g256 c0", "elements w1 t256 g1 c0"}},
      {"activation", GeluBackward(S(), 768), {"sweep w4 t256 g32 c1 column-tiles loops"}},
      {"activation's columns",
       GeluBackward(70, S(), kBF16),
       {"sweep w1 t256 g32 c1 column-tiles loops"}},
      {"sum in the middle", SumOver({3, S(), 96}, 1), {"column-groups w4 t256 g1 c0 columns8"}},
      {"sum of columns in the middle", SumOver({3, 20, S()}, 1), {"columns w1 t128 g1 c0"}},
      {"logarithms", LogSoftmax(3, S()), {"rows w1 t1024 g1024 c0"}},
  };
  ExpectPlansAndNumbers(std::move(cases), {9, 1537, 21, 5001, 41, 99, 30, 33, 2049});
}

TEST(CudaSweeps, Split) {
  std::vector<CudaCase> cases{
      {"sum", LastOf(kSum, 3, 20000), {"split w4 t256 g256 c0 parts4 last-block"}},
      {"sum odd", LastOf(kSum, 2, 20001, kBF16), {"split w1 t256 g256 c0 parts19 last-block"}},
      {"maximum", LastOf(kMax, 3, 20000, kBF16), {"split w8 t256 g256 c0 parts2 last-block"}},
      {"place", LastOf(kPlace, 3, 20000), {"split w4 t256 g256 c0 parts4 last-block"}},
      {"place odd", LastOf(kPlace, 1, 40001), {"split w1 t256 g256 c0 parts39 last-block"}},
      {"spread", LastOf(kSpread, 3, 20000), {"rows w4 t1024 g1024 c5"}},
      {"spread long", LastOf(kSpread, 2, 40000, v1::DTYPE_FLOAT64), {"rows w2 t1024 g1024 c0"}},
      {"logarithms",
       LogSoftmax(2, 40001),
       {"split w1 t256 g256 c0 parts39 last-block", "elements w1 t256 g1 c0"}},
      {"logarithms narrow",
       LogSoftmax(3, 20000, kBF16),
       {"split w8 t256 g256 c0 parts2 last-block", "elements w8 t256 g1 c0"}},
  };
  for (CudaCase& c : cases) c.multiprocessors = 132;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaSweeps, Elements) {
  std::vector<CudaCase> cases{
      {"dropout", Dropout({7, 768}, kBF16), {"elements w2 t256 g1 c0"}},
      {"dropout odd", Dropout({7, 63}, kF32), {"elements w1 t256 g1 c0"}},
      {"parts of 64", Joined(9, {64, 64}), {"elements w4 t256 g1 c0"}},
      {"parts of 64 and 63", Joined(9, {64, 63}, kBF16), {"elements w1 t256 g1 c0"}},
      {"parts of 63 and 1", Joined(9, {63, 1}), {"elements w1 t256 g1 c0"}},
      {"three parts", Joined(9, {64, 63, 1}), {"elements w1 t256 g1 c0"}},
      {"three even parts", Joined(9, {64, 8, 128}, kBF16), {"elements w8 t256 g1 c0"}},
      {"padded", Padded(9, 64, 0, 8), {"elements w4 t256 g1 c0"}},
      {"padded odd", Padded(9, 63, 1, 2, kBF16), {"elements w1 t256 g1 c0"}},
      {"cut and padded", Padded(9, 63, -1, 2), {"elements w1 t256 g1 c0"}},
      {"blocks", Blocks(3, kF32, false), {"elements w4 t256 g1 c0"}},
      {"blocks of pixels", Blocks(3, kF32, true), {"elements w4 t256 g1 c0"}},
      {"blocks of whole pixels", Blocks(4, kBF16, true), {"elements w4 t256 g1 c0"}},
      {"blocks of one channel", Blocks(1, kBF16, false), {"elements w4 t256 g1 c0"}},
      {"rows added",
       EmbeddingBackward(40, 768, kF32),
       {"elements w4 t256 g1 c0", "elements w4 t256 g1 c0"}},
      {"rows added narrow",
       EmbeddingBackward(40, 768, kBF16, 3),
       {"elements w4 t256 g1 c0", "rows w4 t256 g32 c6 loads-first", "elements w4 t256 g1 c0"}},
      {"short rows added",
       EmbeddingBackward(40, 5, kF32),
       {"elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"short rows added narrow",
       EmbeddingBackward(40, 5, kBF16),
       {"elements w1 t256 g1 c0", "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {"rows added but for one",
       EmbeddingBackward(40, 768, kF32, 3),
       {"elements w4 t256 g1 c0", "rows w4 t256 g32 c6 loads-first"}},
      {"optimizer", Adam(9000), {"elements w4 t256 g1 c0 vectors4"}},
      {"optimizer odd", Adam(4097), {"elements w1 t256 g1 c0 vectors4"}},
  };
  for (CudaCase& c : cases) c.classes = 9;
  ExpectPlansAndNumbers(cases);
}

// A large table's gradient is written once: with one token's gradient, whichever came last, or
// zeros; and other tokens of a row are added. Tokens are few and rows fewer, or most rows have
// none.
TEST(CudaSweeps, LargeTables) {
  const std::string number = "elements w2 t256 g1 c0", write = "elements w4 t256 g1 c0";
  std::vector<CudaCase> cases{
      {"many of a row",
       LargeEmbeddingBackward(40, 64, kF32),
       {number, write, "rows w4 t256 g16 c1 loads-first"}},
      {"wide",
       LargeEmbeddingBackward(40, 768, kF32),
       {number, "rows w4 t256 g32 c6 loads-first", "rows w4 t256 g32 c6 loads-first"}},
      {"padding",
       LargeEmbeddingBackward(40, 64, kF32, 3),
       {number, write, "rows w4 t256 g16 c1 loads-first"}},
      {"narrow",
       LargeEmbeddingBackward(40, 64, kBF16, 3),
       {number, write, "rows w4 t256 g16 c1 loads-first", write}},
      {"int32",
       LargeEmbeddingBackward(40, 64, kF32, -1, v1::DTYPE_INT32),
       {"elements w4 t256 g1 c0", write, "rows w4 t256 g16 c1 loads-first"}},
      {"odd",
       LargeEmbeddingBackward(38, 37, kF32),
       {number, "elements w1 t256 g1 c0", "rows w1 t128 g32 c2"}},
  };
  for (CudaCase& c : cases) {
    c.classes = 9;
    c.symbols = {{0, 9}};
  }
  CudaCase sparse = cases[0];
  sparse.name = "few of many rows";
  sparse.symbols = {{0, 500}};
  sparse.classes = 500;
  cases.push_back(sparse);
  ExpectPlansAndNumbers(cases);
}

}  // namespace
}  // namespace tensord::testing
