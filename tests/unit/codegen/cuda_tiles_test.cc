// SPDX-License-Identifier: Apache-2.0
// Operands that lie across the vector loop: when a nest takes tiles, and that its kernel gives what
// the loop IR says, run on the host.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/cuda_tests.h"
#include "tests/unit/testing/kept_jit.h"

namespace tensord::testing {
namespace cuda_tiles_test {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DType kI64 = v1::DTYPE_INT64, kBool = v1::DTYPE_BOOL;

Ref Transposed(GraphBuilder& g, Ref x, int rows, int columns, v1::DType dtype = kF32) {
  return g.Node("aten::t", {x}, g.Meta({columns, rows}, dtype, {1, columns}));
}
Ref Add(GraphBuilder& g, Ref a, Ref b, const Shape& sizes, v1::DType dtype = kF32) {
  return g.Node("aten::add.Tensor", {a, b, 1}, g.Meta(sizes, dtype));
}
Ref Contiguous(GraphBuilder& g, Ref x, const Shape& sizes, v1::DType dtype = kF32) {
  return g.Node("aten::clone", {x, v1::MEMORY_FORMAT_CONTIGUOUS}, g.Meta(sizes, dtype));
}

// (x + 1) * y.t()
GraphBuilder TimesTransposed(int rows, int columns, v1::DType x_type, v1::DType y_type) {
  GraphBuilder g;
  const Ref x = g.Input({rows, columns}, x_type), y = g.Input({columns, rows}, y_type);
  const v1::DType type = x_type == kF32 || y_type == kF32 ? kF32 : x_type;
  const Ref sum = g.Node("aten::add.Scalar", {x, 1, 1}, g.Meta({rows, columns}, x_type));
  g.Output(g.Node("aten::mul.Tensor", {sum, Transposed(g, y, columns, rows, y_type)},
                  g.Meta({rows, columns}, type)));
  return g;
}
// x.t().contiguous()
GraphBuilder TransposedCopy(int rows, int columns, v1::DType dtype) {
  GraphBuilder g;
  const Ref x = g.Input({rows, columns}, dtype);
  g.Output(Contiguous(g, Transposed(g, x, rows, columns, dtype), {columns, rows}, dtype));
  return g;
}
// One straight operand and `count` that lie across.
GraphBuilder SumOfTransposed(int rows, int columns, int count) {
  GraphBuilder g;
  std::vector<Ref> inputs;
  inputs.push_back(g.Input({rows, columns}));
  for (int i = 0; i < count; ++i) inputs.push_back(g.Input({columns, rows}));
  Ref sum = inputs[0];
  for (int i = 1; i <= count; ++i) {
    sum = Add(g, sum, Transposed(g, inputs[i], columns, rows), {rows, columns});
  }
  g.Output(sum);
  return g;
}
// x.permute(0, 2, 1).contiguous()
GraphBuilder Batched(const Dim& batch, const Dim& rows, const Dim& columns, v1::DType dtype) {
  GraphBuilder g;
  const Ref x = g.Input({batch, rows, columns}, dtype);
  const Ref transposed =
      g.Node("aten::permute", {x, Ints({0, 2, 1})},
             g.Meta({batch, columns, rows}, dtype, {rows * columns, 1, columns}));
  g.Output(Contiguous(g, transposed, {batch, columns, rows}, dtype));
  return g;
}
// x + bias + y.t(), y without the batch.
GraphBuilder Broadcast() {
  GraphBuilder g;
  const Ref x = g.Input({3, 40, 72}), y = g.Input({72, 40}), bias = g.Input({40, 1});
  const Ref sum = Add(g, x, bias, {3, 40, 72});
  g.Output(Add(g, sum, Transposed(g, y, 72, 40), {3, 40, 72}));
  return g;
}
// Two results of one nest.
GraphBuilder TwoResults() {
  GraphBuilder g;
  const Ref x = g.Input({64, 96}), y = g.Input({96, 64});
  const Ref transposed = Transposed(g, y, 96, 64);
  g.Output(Add(g, x, transposed, {64, 96}));
  g.Output(g.Node("aten::mul.Tensor", {x, transposed}, g.Meta({64, 96})));
  return g;
}
// x + x.t()
GraphBuilder Symmetric() {
  GraphBuilder g;
  const Ref x = g.Input({96, 96});
  g.Output(Add(g, x, Transposed(g, x, 96, 96), {96, 96}));
  return g;
}
// Two stores into parts of one buffer, then a sum.
GraphBuilder Concatenated() {
  GraphBuilder g;
  const Ref x = g.Input({64, 40}), y = g.Input({96, 40}), z = g.Input({160, 40});
  const Ref parts =
      g.Node("aten::cat", {List({Transposed(g, x, 64, 40), Transposed(g, y, 96, 40)}), 1},
             g.Meta({40, 160}));
  g.Output(Add(g, parts, Transposed(g, z, 160, 40), {40, 160}));
  return g;
}
// Rows of one table in an order that another tensor has, beside an operand that lies across.
GraphBuilder Gathered() {
  GraphBuilder g;
  const Ref table = g.Input({50, 64}), order = g.Input({96}, kI64), y = g.Input({64, 96});
  const Ref rows = g.Node("aten::index_select", {table, 0, order}, g.Meta({96, 64}));
  g.Output(Add(g, rows, Transposed(g, y, 64, 96), {96, 64}));
  return g;
}
// Two nests of one launch.
GraphBuilder TwoNests() {
  GraphBuilder g;
  const Ref x = g.Input({96, 128}), y = g.Input({64, 80}, kBF16);
  g.Output(Contiguous(g, Transposed(g, x, 96, 128), {128, 96}));
  g.Output(Contiguous(g, Transposed(g, y, 64, 80, kBF16), {80, 64}, kBF16));
  return g;
}
// (a, b, c, d) to (a, d, b, c), with two operands whose rows lie along different loops.
GraphBuilder FourLoops() {
  GraphBuilder g;
  const Ref x = g.Input({2, 34, 5, 48}), y = g.Input({48, 5, 34});
  const Ref first = g.Node("aten::permute", {x, Ints({0, 3, 2, 1})},
                           g.Meta({2, 48, 5, 34}, kF32, {34 * 5 * 48, 1, 48, 5 * 48}));
  g.Output(Add(g, first, y, {2, 48, 5, 34}));
  return g;
}
GraphBuilder SymbolicTransposed() {
  GraphBuilder g;
  const Dim s = g.Symbol(100), t = g.Symbol(80);
  const Ref x = g.Input({s, t});
  const Ref transposed = g.Node("aten::t", {x}, g.Meta({t, s}, kF32, {1, t}));
  g.Output(Contiguous(g, transposed, {t, s}));
  return g;
}

std::vector<CudaCase> Cases() {
  std::vector<CudaCase> cases;
  const auto add = [&](const std::string& name, GraphBuilder graph,
                       std::vector<std::string> plans) -> CudaCase& {
    for (std::string& plan : plans) absl::StrAppend(&plan, " t256 g1 c0");
    // One multiprocessor: large tiles for small tensors.
    return cases.emplace_back(CudaCase{name, std::move(graph), std::move(plans), 1});
  };
  add("product", TimesTransposed(128, 192, kF32, kF32), {"tiles w4 64x64 r4"});
  add("large device", TimesTransposed(128, 192, kF32, kF32), {"tiles w4 32x32 r1"})
      .multiprocessors = 132;
  add("narrow", TimesTransposed(128, 192, kBF16, kBF16), {"tiles w8 64x64 r2"});
  add("narrow across", TimesTransposed(64, 128, kF32, kBF16), {"tiles w4 64x64 r2"});
  add("wide across", TimesTransposed(128, 64, kBF16, kF32), {"tiles w4 64x64 r4"});
  add("transposed", TransposedCopy(96, 128, kF32), {"tiles w4 64x64 r4"});
  add("transposed narrow", TransposedCopy(96, 128, kBF16), {"tiles w8 64x64 r2"});
  add("transposed integers", TransposedCopy(96, 64, kI64), {"tiles w2 32x32 r2"});
  add("transposed truth", TransposedCopy(160, 128, kBool), {"tiles w2 128x128 r4"});
  add("transposed truth small", TransposedCopy(48, 36, kBool), {"tiles w2 32x32 r1"});
  add("odd", TimesTransposed(131, 197, kF32, kF32), {"tiles w1 64x64 r1"});
  add("odd narrow", TransposedCopy(131, 197, kBF16), {"tiles w1 64x64 r1"});
  add("half odd", TransposedCopy(130, 101, kF32), {"tiles w2 64x64 r1"});
  add("other half odd", TransposedCopy(101, 130, kF32), {"tiles w1 64x64 r2"});
  add("small", TimesTransposed(128, 24, kF32, kF32), {"tiles w4 16x64 r1"});
  add("flat", TimesTransposed(24, 128, kF32, kF32), {"tiles w4 64x16 r1"});
  add("filters", TransposedCopy(256, 9, kF32), {"tiles w4 64x16 r1"});
  add("filters back", TransposedCopy(9, 256, kBF16), {"tiles w1 16x64 r1"});
  add("shorter", TimesTransposed(7, 128, kF32, kF32), {"elements w4"});
  add("both short", TimesTransposed(24, 16, kF32, kF32), {"elements w4"});
  add("two", SumOfTransposed(128, 64, 2), {"tiles w4 64x64 r4 r4"});
  add("three", SumOfTransposed(128, 64, 3), {"tiles w4 64x32 r2 r2 r2"});
  add("more than find room", SumOfTransposed(32, 64, 9),
      {"tiles w4 32x32 r1 r1 r1 r1 r1 r1 r1 r1"});
  add("batched", Batched(3, 48, 80, kF32), {"tiles w4 32x64 r2"});
  add("broadcast", Broadcast(), {"tiles w4 64x32 r2"});
  add("two results", TwoResults(), {"tiles w4 64x64 r4"});
  add("symmetric", Symmetric(), {"tiles w4 64x64 r4"});
  add("concatenated", Concatenated(),
      {"tiles w4 64x32 r2", "tiles w4 64x32 r2", "tiles w4 64x32 r2"});
  add("gathered", Gathered(), {"tiles w4 64x64 r4"}).classes = 50;
  add("long and odd", TimesTransposed(1023, 385, kF32, kF32), {"tiles w1 64x64 r1"});
  add("two nests", TwoNests(), {"tiles w4 64x64 r4", "tiles w8 64x64 r2"});
  add("four loops", FourLoops(), {"tiles w2 32x32 r1"});
  add("symbolic", SymbolicTransposed(), {"tiles w1 64x64 r1"}).symbols = {{0, 67}, {1, 131}};
  add("symbolic and small", SymbolicTransposed(), {"tiles w1 64x64 r1"}).symbols = {{0, 3}, {1, 2}};
  return cases;
}

TEST(CudaTiles, NestsTakeTilesWhereOperandsLieAcross) { ExpectPlansAndNumbers(Cases()); }

TEST(CudaTiles, KernelsCompileWithoutSpills) {
  if (CudaTestsAreOff()) GTEST_SKIP() << "TENSORD_NO_CUDA_TESTS=1";
  jit::JitConfig config;
  if (const char* nvrtc = std::getenv("TENSORD_NVRTC")) config.nvrtc = nvrtc;
  config.work_folder = ::testing::TempDir();
  config.parallelism = 2;
  for (int sm : {80, 90, 100}) {
    v1::JitJob job;
    std::vector<std::string> names;
    for (const CudaCase& c : Cases()) {
      for (const v1::KernelUnit& unit : UnitsOf(c)) {
        *job.add_units() = unit;
        names.push_back(c.name);
      }
    }
    job.mutable_target()->mutable_cuda()->set_sm(sm);
    const auto result = KeptJit(job, config);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const auto& failure : result->failures()) {
      ADD_FAILURE() << job.units(failure.unit()).source() << failure.log();
    }
    for (int i = 0; i < result->resources_size(); ++i) {
      EXPECT_EQ(result->resources(i).spill_bytes(), 0) << names[i];
      // A multiprocessor then holds blocks for 1,280 threads and more.
      EXPECT_LE(result->resources(i).registers(), 48) << names[i] << "\n" << job.units(i).source();
    }
  }
}

}  // namespace cuda_tiles_test
}  // namespace tensord::testing
