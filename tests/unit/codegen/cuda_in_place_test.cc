// SPDX-License-Identifier: Apache-2.0
// CUDA kernels that overwrite what they read: no thread or pass finds the new value where the old
// one is meant.
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_cases.h"

namespace tensord::testing {
namespace cuda_in_place_test {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kI64 = v1::DTYPE_INT64;

GraphBuilder Cuda() { return GraphBuilder(v1::DEVICE_TYPE_CUDA); }

void Overwrite(GraphBuilder& g, Ref x, Ref by, const v1::TensorMeta& meta) {
  g.Node("aten::copy_", {x, by, false}, meta);
}

// tanh in place, and the variances of its rows, whose second pass has the input overwritten.
GraphBuilder VariancesOfRows(const Dim& columns) {
  GraphBuilder g = Cuda();
  const v1::TensorMeta meta = g.Meta({3, columns});
  const Ref x = g.Input({3, columns}), y = g.Node("aten::tanh", {x}, meta);
  g.Output(g.Node("aten::var.correction", {y, Ints({1}), 1, false}, g.Meta({3})));
  Overwrite(g, x, y, meta);
  return g;
}

// A scale for each row, which all threads of the row read and one overwrites. `first`: the new one
// scales.
GraphBuilder Rescaled(int columns, bool first) {
  GraphBuilder g = Cuda();
  const v1::TensorMeta meta = g.Meta({3, columns}), of_rows = g.Meta({3, 1});
  const Ref x = g.Input({3, columns}), scale = g.Input({3, 1});
  const Ref largest = g.Node("aten::amax", {x, Ints({1}), true}, of_rows);
  const Ref next = g.Node("aten::mul.Tensor", {scale, largest}, of_rows);
  const Ref centered = g.Node("aten::sub.Tensor", {x, largest, 1}, meta);
  g.Output(g.Node("aten::mul.Tensor", {centered, first ? next : scale}, meta));
  Overwrite(g, scale, next, of_rows);
  return g;
}

// What is stored over the input is read back by a later pass.
GraphBuilder ReadBack() {
  GraphBuilder g = Cuda();
  const v1::TensorMeta meta = g.Meta({3, 1024}), of_rows = g.Meta({3, 1});
  const Ref x = g.Input({3, 1024}), y = g.Node("aten::tanh", {x}, meta);
  const Ref z = g.Node("aten::copy_", {x, y, false}, meta);
  const Ref largest = g.Node("aten::amax", {z, Ints({1}), true}, of_rows);
  return g.Output(g.Node("aten::sub.Tensor", {z, largest, 1}, meta));
}

// Rows that are so long and few that their largest is found in parts, and what follows from it.
GraphBuilder LargestSoFar(int columns) {
  GraphBuilder g = Cuda();
  const v1::TensorMeta of_rows = g.Meta({8, 1});
  const Ref x = g.Input({8, columns}), scale = g.Input({8, 1});
  const Ref largest = g.Node("aten::amax", {x, Ints({1}), true}, of_rows);
  g.Output(largest);
  Overwrite(g, scale, g.Node("aten::mul.Tensor", {scale, largest}, of_rows), of_rows);
  return g;
}

// A complex number for each row, whose new parts are of both of the old ones.
GraphBuilder TurnedNumbers() {
  GraphBuilder g = Cuda();
  const v1::TensorMeta of_rows = g.Meta({3, 1}), complex = g.Meta({3, 1}, v1::DTYPE_COMPLEX64);
  const Ref x = g.Input({3, 512}), number = g.Input({3, 1}, v1::DTYPE_COMPLEX64);
  const Ref largest = g.Node("aten::amax", {x, Ints({1}), true}, of_rows);
  const Ref turned = g.Node(
      "aten::mul.Tensor", {number, g.Node("aten::complex", {largest, largest}, complex)}, complex);
  g.Output(largest);
  Overwrite(g, number, turned, complex);
  return g;
}

// Columns of which all rows are read as one, and then overwritten.
GraphBuilder VariancesOfRepeated() {
  GraphBuilder g = Cuda();
  const v1::TensorMeta meta = g.Meta({17, 1});
  const Ref x = g.Input({17, 1}), y = g.Node("aten::neg", {x}, meta);
  const Ref wide = g.Node("aten::expand", {y, Ints({17, 2}), false}, g.Meta({17, 2}, kF32, {1, 0}));
  g.Output(g.Node("aten::var.correction", {wide, Ints({0}), 1, false}, g.Meta({2})));
  Overwrite(g, x, y, meta);
  return g;
}

// One element, added to where a number says, of what costs more than a vector.
GraphBuilder AddOne() {
  GraphBuilder g = Cuda();
  const v1::TensorMeta one = g.Meta({1});
  const Ref into = g.Input({4}), where = g.Input({1}, kI64), x = g.Input({1});
  Ref y = g.Node("aten::silu", {x}, one);
  y = g.Node("aten::erf", {y}, one);
  g.Output(g.Node("aten::index_put", {into, List({where}), y, true}, g.Meta({4})));
  return g;
}

TEST(CudaInPlace, RowsThatAreReadAgain) {
  std::vector<CudaCase> cases{
      {"in registers", VariancesOfRows(300), {"rows w4 t64 g64 c2"}},
      {"of a block", VariancesOfRows(40000), {"elements w4 t256 g1 c0", "rows w4 t1024 g1024 c0"}},
  };
  ExpectPlansAndNumbers(cases);
  ExpectPlansAndNumbers({{"symbolic", VariancesOfRows(S()), {"rows w1 t1024 g1024 c0 loops"}}},
                        {700});
}

TEST(CudaInPlace, ScalesOfRows) {
  ExpectPlansAndNumbers({
      {"a warp, old", Rescaled(64, false), {"rows w4 t32 g16 c1"}},
      {"a block, old", Rescaled(3000, false), {"rows w4 t192 g192 c4"}},
      {"a block, new", Rescaled(3000, true), {"rows w4 t192 g192 c4"}},
      {"long rows, new",
       Rescaled(40001, true),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "elements w1 t256 g1 c0"}},
  });
}

TEST(CudaInPlace, ReadBack) {
  ExpectPlansAndNumbers({{"one tensor", ReadBack(), {"rows w4 t64 g64 c4"}}});
}

TEST(CudaInPlace, PartsOfRows) {
  std::vector<CudaCase> cases{
      {"split", LargestSoFar(40000), {"split w4 t256 g256 c0 parts9 last-block"}}};
  cases[0].multiprocessors = 132;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaInPlace, PartsOfComplexNumbers) {
  ExpectPlansAndNumbers({{"turned", TurnedNumbers(), {"rows w4 t64 g64 c2"}}});
}

TEST(CudaInPlace, WhatAllRowsRead) {
  ExpectPlansAndNumbers(
      {{"repeated", VariancesOfRepeated(), {"rows w1 t32 g32 c1", "elements w1 t256 g1 c0"}}});
}

TEST(CudaInPlace, OneElement) {
  std::vector<CudaCase> cases{
      {"added", AddOne(), {"elements w4 t256 g1 c0", "elements w1 t256 g1 c0 vectors4"}}};
  cases[0].classes = 4;
  ExpectPlansAndNumbers(cases);
}

}  // namespace cuda_in_place_test
}  // namespace tensord::testing
