// SPDX-License-Identifier: Apache-2.0
// Nests that differ in their sizes and buffers alone share a launch and a function: which do, and
// that each computes with its own.
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/cuda_cases.h"

namespace tensord::testing {
namespace cuda_equal_nests_test {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;

struct Parameters {
  std::vector<Shape> shapes;
  v1::DType dtype = kF32;
  bool symbolic = false;  // symbol 0 is a size
};

// A step of an optimizer: momentum and parameter of each, in place. Odd ones decay.
GraphBuilder Steps(const Parameters& parameters, bool decay = false) {
  GraphBuilder g(kCuda);
  if (parameters.symbolic) g.Symbol(1000);
  const Ref rate = g.Input(Shape{});
  struct Parameter {
    Ref p, grad, m;
  };
  std::vector<Parameter> all;
  for (const Shape& shape : parameters.shapes) {
    all.push_back({g.Input(shape, parameters.dtype), g.Input(shape, parameters.dtype),
                   g.Input(shape, parameters.dtype)});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [p, grad, m] = all[i];
    const v1::TensorMeta meta = g.Meta(parameters.shapes[i], parameters.dtype);
    const Ref scaled = g.Node("aten::mul.Scalar", {m, 0.75}, meta);
    const Ref next = g.Node("aten::add.Tensor", {scaled, grad, 1}, meta);
    const Ref change = g.Node("aten::mul.Tensor", {next, rate}, meta);
    const Ref kept = decay && i % 2 == 1 ? g.Node("aten::mul.Scalar", {p, 0.5}, meta) : p;
    const Ref updated = g.Node("aten::sub.Tensor", {kept, change, 1}, meta);
    g.Node("aten::copy_", {m, next, false}, meta);
    g.Node("aten::copy_", {p, updated, false}, meta);
  }
  return g;
}

// The same function of each input, in new memory: of outputs, or of what a product reads.
GraphBuilder Halves(const std::vector<Shape>& shapes, bool for_products = false) {
  GraphBuilder g(kCuda);
  std::vector<Ref> inputs;
  for (const Shape& shape : shapes) inputs.push_back(g.Input(shape));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Ref half = g.Node("aten::mul.Scalar", {inputs[i], 0.5}, g.Meta(shapes[i]));
    const Ref result = for_products ? g.Node("aten::mm", {half, half}, g.Meta(shapes[i])) : half;
    g.Output(result);
  }
  return g;
}

std::vector<std::string> Times(size_t count, const std::string& plan) {
  return std::vector<std::string>(count, plan);
}

TEST(CudaEqualNests, EachComputesWithItsOwn) {
  const Dim s = GraphBuilder().Symbol(1000);
  const Parameters parameters{{{64, 96}, {96}, {4}, {300, 8}, {64, 96}}};
  const Parameters narrow{{{64, 96}, {96}, {8}, {300, 8}}, kBF16};
  // Of one element; of a number that is no multiple of a vector's; of any.
  const Parameters odd{{{1}, {96}, {7}, {301}, {Shape{}}}};
  const Parameters any{{{s}, {96}, {s, 2}, {s, 4}}, kF32, true};
  ExpectPlansAndNumbers({
      {"five", Steps(parameters), Times(5, "elements w4 t256 g1 c0")},
      {"narrow", Steps(narrow), Times(4, "elements w8 t256 g1 c0")},
      {"two kinds", Steps(parameters, /*decay=*/true), Times(5, "elements w4 t256 g1 c0")},
      {"results",
       Halves({{64, 64}, {5}, {6}, {16}}),
       {"elements w4 t256 g1 c0", "elements w1 t256 g1 c0", "elements w2 t256 g1 c0",
        "elements w4 t256 g1 c0"}},
      {"odd",
       Steps(odd),
       {"elements w1 t256 g1 c0", "elements w4 t256 g1 c0", "elements w1 t256 g1 c0",
        "elements w1 t256 g1 c0", "elements w1 t256 g1 c0"}},
      {.name = "any size",
       .graph = Steps(any),
       .plans = {"elements w1 t256 g1 c0", "elements w4 t256 g1 c0", "elements w2 t256 g1 c0",
                 "elements w4 t256 g1 c0"},
       .symbols = {{0, 1037}}},
  });
}

struct Launches {
  std::vector<size_t> nests;  // of each
  size_t units = 0;           // that the JIT compiles
  size_t most_arguments = 0;
};

Launches LaunchesOf(GraphBuilder graph) {
  v1::CompileJob job;
  *job.mutable_graph() = graph.graph();
  v1::CudaTarget* target = job.mutable_target()->mutable_cuda();
  target->set_sm(90);
  target->set_multiprocessors(132);
  target->set_shared_bytes_per_block(232448);
  target->set_registers_per_multiprocessor(65536);
  compiler::CompileState state;
  state.job = &job;
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  Launches launches{.units = static_cast<size_t>(state.result.units_size())};
  for (const auto& step : state.schedule.steps) {
    const auto* kernel = std::get_if<compiler::Kernel>(&step.work);
    if (kernel != nullptr) launches.nests.push_back(kernel->nests.size());
  }
  for (const auto& kernel : state.kernels) {
    launches.most_arguments = std::max(
        launches.most_arguments, kernel.launch.buffers.size() + kernel.launch.integers.size());
  }
  return launches;
}

TEST(CudaEqualNests, LargeOnesShareALaunchWhereTheyWriteInPlace) {
  const Launches launches = LaunchesOf(Steps({{{4096, 4096}, {4096}, {2048, 4096}, {4096}}}));
  EXPECT_EQ(launches.nests, std::vector<size_t>{4});
}

// Each half would need its memory from the start.
TEST(CudaEqualNests, LargeOnesThatNeedMemoryOfTheCallDoNot) {
  const Launches launches = LaunchesOf(Halves({{4096, 4096}, {4096, 4096}}, true));
  EXPECT_EQ(launches.nests, (std::vector<size_t>{1, 1}));
}

TEST(CudaEqualNests, LargeOnesOfTwoKindsDoNot) {
  const Launches launches =
      LaunchesOf(Steps({{{4096, 4096}, {4096, 4096}, {4096, 4096}, {4096, 4096}}}, true));
  EXPECT_EQ(launches.nests, (std::vector<size_t>{2, 2}));
}

// A row of numbers times each input's rows, as the rotation of queries and of keys, which have
// fewer heads: no one function serves both.
GraphBuilder Scaled(const std::vector<Shape>& shapes, bool for_others = false) {
  GraphBuilder g(kCuda);
  const Ref scale = g.Input(Shape{shapes[0].back()});
  std::vector<Ref> inputs;
  for (const Shape& shape : shapes) inputs.push_back(g.Input(shape));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const v1::TensorMeta meta = g.Meta(shapes[i]);
    const Ref result = g.Node("aten::mul.Tensor", {inputs[i], scale}, meta);
    g.Output(for_others ? g.Node("aten::cumsum", {result, 0, nullptr}, meta) : result);
  }
  return g;
}

TEST(CudaEqualNests, LargeOnesThatComputeTheSameShareALaunch) {
  ExpectPlansAndNumbers(
      {{"heads", Scaled({{64, 96}, {16, 96}}), Times(2, "elements w4 t256 g1 c0")}});
  EXPECT_EQ(LaunchesOf(Scaled({{16384, 4096}, {4096, 4096}})).nests, std::vector<size_t>{2});
  // Where others read it within the call, each would need its memory from the start.
  const Launches apart = LaunchesOf(Scaled({{16384, 4096}, {4096, 4096}}, true));
  for (size_t nests : apart.nests) EXPECT_EQ(nests, 1u);
}

TEST(CudaEqualNests, ALaunchTakesAsManyAsItHasArgumentsFor) {
  std::vector<Shape> shapes;
  for (int i = 0; i < 300; ++i) shapes.push_back({64, 64 + 4 * (i % 3)});
  const Launches launches = LaunchesOf(Steps({shapes}));
  size_t nests = 0;
  for (size_t count : launches.nests) nests += count;
  EXPECT_EQ(nests, 300u);
  EXPECT_LE(launches.nests.size(), 4u);
  EXPECT_LE(launches.units, 2u);  // all but the last have as many
  EXPECT_LT(launches.most_arguments, 512u);
}

}  // namespace cuda_equal_nests_test
}  // namespace tensord::testing
