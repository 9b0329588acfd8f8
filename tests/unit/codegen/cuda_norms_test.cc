// SPDX-License-Identifier: Apache-2.0
// CUDA kernels of the gradients of norms, which reduce each row and sum columns in one sweep: their
// plans, and that the numbers are what the loop IR says.
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_cases.h"

namespace tensord::testing {
namespace cuda_norms_test {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;
constexpr const char* kSum = "aten::sum.dim_IntList";

// dx, dweight and dbias. `of_product`: the gradient is a product of two. `with_bias`: and dx's sum
// over rows, the gradient of the bias before the norm.
GraphBuilder LayerNormBackward(const Dim& rows, const Dim& columns, v1::DType dtype = kF32,
                               bool of_product = false, bool with_bias = false) {
  GraphBuilder g(kCuda);
  Ref grad = g.Input({rows, columns}, dtype);
  const Ref x = g.Input({rows, columns}, dtype);
  const Ref other = of_product ? g.Input({rows, columns}, dtype) : grad;
  const Ref mean = g.Input({rows, 1}), rstd = g.Input({rows, 1});
  const Ref weight = g.Input({columns}, dtype), bias = g.Input({columns}, dtype);
  const v1::TensorMeta of_columns = g.Meta({columns}, dtype);
  if (of_product) {
    grad = g.Node("aten::mul.Tensor", {grad, other}, g.Meta({rows, columns}, dtype));
  }
  const Ref r =
      g.Node("aten::native_layer_norm_backward",
             {grad, x, Ints({columns}), mean, rstd, weight, bias, List({true, true, true})},
             {g.Meta({rows, columns}, dtype), of_columns, of_columns});
  g.Output(r).Output(r.result(1)).Output(r.result(2));
  if (with_bias) g.Output(g.Node(kSum, {r, Ints({0}), false, nullptr}, of_columns));
  return g;
}
GraphBuilder BlockNormBackward(int rows, int columns, v1::DType dtype = kF32) {
  return LayerNormBackward(rows, columns, dtype, /*of_product=*/false, /*with_bias=*/true);
}
GraphBuilder RmsNormBackward(const Dim& rows, const Dim& columns, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref grad = g.Input({rows, columns}, dtype), x = g.Input({rows, columns}, dtype);
  const Ref rstd = g.Input({rows, 1}), weight = g.Input({columns}, dtype);
  const Ref r = g.Node("aten::_fused_rms_norm_backward",
                       {grad, x, Ints({columns}), rstd, weight, List({true, true})},
                       {g.Meta({rows, columns}, dtype), g.Meta({columns}, dtype)});
  g.Output(r).Output(r.result(1));
  return g;
}

TEST(CudaNorms, Gradients) {
  ExpectPlansAndNumbers({
      {"768", LayerNormBackward(101, 768), {"sweep w4 t128 g32 c6 loops prefetches"}},
      {"768 narrow", LayerNormBackward(99, 768, kBF16), {"sweep w8 t128 g32 c3 loops prefetches"}},
      {"1024", LayerNormBackward(98, 1024), {"sweep w4 t256 g64 c4 loops prefetches"}},
      {"1024 narrow",
       LayerNormBackward(98, 1024, kBF16),
       {"sweep w8 t256 g64 c2 loops prefetches"}},
      {"1537", LayerNormBackward(64, 1537), {"sweep w4 t128 g128 c4 interleaved loops"}},
      {"8190", LayerNormBackward(64, 8190), {"sweep w2 t512 g512 c8 loops prefetches"}},
      {"8190 narrow",
       LayerNormBackward(64, 8190, kBF16),
       {"sweep w8 t512 g512 c2 interleaved loops"}},
      {"8190 of a product",
       LayerNormBackward(64, 8190, kF32, true),
       {"sweep w2 t512 g512 c8 loops prefetches"}},
      {"8190 of a product, narrow",
       LayerNormBackward(64, 8190, kBF16, true),
       {"sweep w2 t512 g512 c8 loops prefetches"}},
      {"few rows",
       LayerNormBackward(2, 768, kBF16),
       {"rows w8 t256 g32 c3", "elements w8 t256 g1 c0", "elements w8 t256 g1 c0"}},
      {"root mean square of 768",
       RmsNormBackward(195, 768, kBF16),
       {"sweep w8 t256 g32 c3 loops prefetches"}},
      {"root mean square of 128",
       RmsNormBackward(203, 128),
       {"sweep w4 t256 g32 c1 loops prefetches"}},
      {"root mean square of 36",
       RmsNormBackward(901, 36),
       {"sweep w4 t256 g16 c1 loops prefetches"}},
      {"root mean square of 36, few rows",
       RmsNormBackward(101, 36),
       {"sweep w4 t128 g16 c1 loops"}},
      {"root mean square of 4", RmsNormBackward(4001, 4), {"sweep w4 t256 g1 c1 loops prefetches"}},
      {"root mean square of 128 doubles",
       RmsNormBackward(203, 128, v1::DTYPE_FLOAT64),
       {"sweep w2 t256 g32 c2 loops prefetches"}},
      {"root mean square of 300",
       RmsNormBackward(203, 300),
       {"sweep w4 t256 g32 c3 loops prefetches"}},
      {"root mean square of 3000",
       RmsNormBackward(64, 3000),
       {"sweep w4 t256 g256 c3 loops prefetches"}},
  });
}

// `count` sums of each column of x, each times its row's sum, so that much is held of a row.
GraphBuilder ManySums(int rows, int columns, int count) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta of_rows = g.Meta({rows, 1}, kBF16), whole = g.Meta({rows, columns}, kBF16);
  const Ref x = g.Input({rows, columns}, kBF16);
  const Ref row = g.Node(kSum, {x, Ints({1}), true, nullptr}, of_rows);
  for (int i = 0; i < count; ++i) {
    const Ref factor = g.Node("aten::add.Scalar", {row, i + 1, 1}, of_rows);
    const Ref product = g.Node("aten::mul.Tensor", {x, factor}, whole);
    g.Output(g.Node(kSum, {product, Ints({0}), false, nullptr}, g.Meta({columns}, kBF16)));
  }
  return g;
}

// What a thread would have to hold beside what is loaded ahead has no room: nothing is.
TEST(CudaNorms, ManySums) {
  ExpectPlansAndNumbers({
      {.name = "8",
       .graph = ManySums(100, 256, 8),
       .plans = {"sweep w8 t256 g32 c1 loops prefetches"},
       .slack = 5e-3},
      {.name = "12",
       .graph = ManySums(100, 256, 12),
       .plans = {"sweep w8 t128 g32 c1 loops"},
       .slack = 5e-3},
      {.name = "20",
       .graph = ManySums(200, 256, 20),
       .plans = {"sweep w8 t1024 g1024 c0 loops"},
       .slack = 5e-3},
  });
}

// How many blocks a multiprocessor has room for bounds a thread's registers.
TEST(CudaNorms, ResidentBlocks) {
  const auto expect = [](const GraphBuilder& graph, int threads, int resident) {
    const auto kernels = KernelsOf({.name = "resident", .graph = graph});
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels[0].cuda[0].threads, threads);
    EXPECT_EQ(kernels[0].cuda[0].resident, resident);
  };
  expect(RmsNormBackward(4001, 128), 256, 6);  // a vector of each array
  expect(RmsNormBackward(4001, 300), 256, 2);
  expect(RmsNormBackward(4001, 1024), 128, 2);         // much for a warp
  expect(BlockNormBackward(401, 768), 256, 2);         // two warps
  expect(BlockNormBackward(401, 768, kBF16), 192, 4);  // three, which hold little
  expect(LayerNormBackward(401, 1536), 192, 2);
}

// Three sums of each column, of which one is of what is stored rounded.
TEST(CudaNorms, GradientsOfBlocks) {
  std::vector<CudaCase> cases{
      {"block of 512", BlockNormBackward(67, 512), {"sweep w4 t128 g32 c4 loops prefetches"}},
      {"block of 768", BlockNormBackward(67, 768), {"sweep w4 t256 g64 c3 loops prefetches"}},
      {"block of 768 narrow",
       BlockNormBackward(67, 768, kBF16),
       {"sweep w8 t192 g96 c1 loops prefetches"}},
      {"block of 1024", BlockNormBackward(67, 1024), {"sweep w4 t256 g64 c4 loops prefetches"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaNorms, Symbolic) {
  std::vector<CudaCase> cases{
      {"rows", LayerNormBackward(S(), 768, kBF16), {"sweep w8 t128 g32 c3 loops prefetches"}},
      {"two rows", LayerNormBackward(S(), 768), {"sweep w4 t128 g32 c6 loops prefetches"}},
      {"long rows",
       LayerNormBackward(S(), 8190, kF32, true),
       {"sweep w2 t512 g512 c8 loops prefetches"}},
      {"columns", LayerNormBackward(70, S()), {"sweep w1 t1024 g1024 c0 loops"}},
  };
  ExpectPlansAndNumbers(std::move(cases), {67, 2, 3, 33});
}

}  // namespace cuda_norms_test
}  // namespace tensord::testing
