// SPDX-License-Identifier: Apache-2.0
// CUDA kernels whose threads, and blocks, share columns that are reduced: their plans, and that the
// numbers are what the loop IR says.
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_cases.h"

namespace tensord::testing {
namespace {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;
constexpr const char* kSum = "aten::sum.dim_IntList";

// Dimension 1 reduced, of as many as there are.
GraphBuilder Inside(const std::string& op, const Shape& sizes, v1::DType dtype = kF32,
                    const Shape& strides = {}) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype, strides);
  std::vector<Arg> args{x, Ints({1}), false};
  if (op == kSum) args.push_back(nullptr);
  Shape rest = sizes;
  rest.erase(rest.begin() + 1);
  const v1::DType result = op == "aten::any.dims" ? v1::DTYPE_BOOL : dtype;
  return g.Output(g.Node(op, args, g.Meta(rest, result)));
}
// Two dimensions that do not merge.
GraphBuilder OverTwo(const Shape& sizes, const Shape& strides) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, kF32, strides);
  return g.Output(g.Node(kSum, {x, Ints({1, 2}), false, nullptr}, g.Meta({sizes[0], sizes[3]})));
}
// Of what is computed beside.
GraphBuilder Product(const Shape& sizes) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta(sizes, kBF16);
  const Ref x = g.Input(meta), y = g.Input(meta);
  const Ref product = g.Node("aten::mul.Tensor",
                             {
                                 x,
                                 y,
                             },
                             meta);
  return g.Output(
      g.Node(kSum, {product, Ints({1}), false, nullptr}, g.Meta({sizes[0], sizes[2]}, kBF16)));
}

TEST(CudaColumnGroups, ThreadsShareColumns) {
  std::vector<CudaCase> cases{
      {"sum", Inside(kSum, {3, 50, 96}), {"column-groups w4 t256 g1 c0 columns32"}},
      {"sum of many", Inside(kSum, {3, 1001, 96}), {"column-groups w4 t256 g1 c0 columns8"}},
      {"one column", Inside(kSum, {40, 99, 3}), {"column-groups w1 t256 g1 c0 columns4"}},
      {"odd", Inside(kSum, {5, 40, 33}, kBF16), {"column-groups w1 t256 g1 c0 columns32"}},
      {"maximum",
       Inside("aten::amax", {3, 50, 96}, kBF16),
       {"column-groups w8 t256 g1 c0 columns16"}},
      {"some",
       Inside("aten::any.dims", {3, 50, 96}, v1::DTYPE_BOOL),
       {"column-groups w2 t256 g1 c0 columns32"}},
      {"integers",
       Inside(kSum, {2, 70, 6}, v1::DTYPE_INT64),
       {"column-groups w2 t256 g1 c0 columns4"}},
      {"two loops",
       OverTwo({2, 30, 5, 12}, {60 * 30, 60, 12, 1}),
       {"column-groups w4 t256 g1 c0 columns4"}},
      {"two loops apart",
       OverTwo({2, 30, 5, 12}, {120 * 30, 120, 12, 1}),
       {"column-groups w4 t256 g1 c0 columns4"}},
      {"product", Product({4, 200, 24}), {"column-groups w8 t256 g1 c0 columns4"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaColumnGroups, BlocksShareColumns) {
  std::vector<CudaCase> cases{
      {"sum",
       Inside(kSum, {2, 3000, 32}),
       {"column-groups w4 t256 g1 c0 columns4 parts2 last-block"}},
      {"minimum",
       Inside("aten::amin", {2, 3000, 30}),
       {"column-groups w2 t256 g1 c0 columns8 parts5 last-block"}},
  };
  for (CudaCase& c : cases) c.multiprocessors = 132;
  ExpectPlansAndNumbers(cases);
}

}  // namespace
}  // namespace tensord::testing
