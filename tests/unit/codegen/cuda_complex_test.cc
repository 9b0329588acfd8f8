// SPDX-License-Identifier: Apache-2.0
// Complex numbers on CUDA: pairs of real ones, which a thread loads and stores together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_cases.h"

namespace tensord::testing {
namespace cuda_complex_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::DType kComplex = v1::DTYPE_COMPLEX64, kBF16 = v1::DTYPE_BFLOAT16;

GraphBuilder Rotated(int rows, int columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Shape heads = {rows, 2, columns}, pairs = {rows, 2, columns / 2, 2};
  const Ref x = g.Input(heads, kBF16), turns = g.Input({rows, 1, columns / 2}, kComplex);
  const Ref real =
      g.Node("aten::_to_copy", {x, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr, false, nullptr},
             g.Meta(heads));
  const Ref paired = g.Node("aten::view", {real, Ints(pairs)}, g.Meta(pairs));
  const v1::TensorMeta complex = g.Meta({rows, 2, columns / 2}, kComplex);
  const Ref z = g.Node("aten::view_as_complex", {paired}, complex);
  const Ref turned = g.Node("aten::mul.Tensor", {z, turns}, complex);
  const Ref parts = g.Node("aten::view_as_real", {turned}, g.Meta(pairs));
  const Ref flat = g.Node("aten::view", {parts, Ints(heads)}, g.Meta(heads));
  g.Output(g.Node("aten::_to_copy", {flat, kBF16, nullptr, nullptr, nullptr, false, nullptr},
                  g.Meta(heads, kBF16)));
  return g;
}

GraphBuilder MultiplyAdd(int elements) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const v1::TensorMeta row = g.Meta({elements}, kComplex);
  const Ref x = g.Input(row), y = g.Input(row), z = g.Input(row);
  const Ref product = g.Node("aten::mul.Tensor", {x, y}, row);
  g.Output(g.Node("aten::add.Tensor", {product, z, 1}, row));
  return g;
}

GraphBuilder Magnitudes(int rows, int columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({rows, columns}, kComplex);
  const Ref sizes = g.Node("aten::abs", {x}, g.Meta({rows, columns}));
  g.Output(g.Node("aten::sum.dim_IntList", {sizes, Ints({1}), false, nullptr}, g.Meta({rows})));
  g.Output(
      g.Node("aten::sum.dim_IntList", {x, Ints({1}), false, nullptr}, g.Meta({rows}, kComplex)));
  return g;
}

TEST(ComplexTest, PartsAreComputedTogether) {
  ExpectPlansAndNumbers({
      {"rotated", Rotated(64, 64), {"elements w2 t256 g1 c0"}},
      {"rotated_odd", Rotated(5, 6), {"elements w1 t256 g1 c0"}},
      {"multiply_add", MultiplyAdd(4096), {"elements w2 t256 g1 c0"}},
      {"multiply_add_odd", MultiplyAdd(4099), {"elements w1 t256 g1 c0"}},
      {"magnitudes", Magnitudes(64, 256), {"rows w2 t128 g32 c4"}},
  });
}

TEST(ComplexTest, PairsAreOneAccess) {
  const std::string source = UnitsOf({"x", MultiplyAdd(4096), {}})[0].source();
  EXPECT_THAT(source, HasSubstr("load_even<float, W>"));
  EXPECT_THAT(source, HasSubstr("store_pairs<float, W>"));
  EXPECT_THAT(source, Not(HasSubstr("strided")));
}

}  // namespace cuda_complex_test
}  // namespace tensord::testing
