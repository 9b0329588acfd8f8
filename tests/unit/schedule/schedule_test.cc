// SPDX-License-Identifier: Apache-2.0
// What the scheduler promises: how many kernels, and what each reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compile.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/access.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace schedule_test {

using compiler::CompileState;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kI64 = v1::DTYPE_INT64, kBool = v1::DTYPE_BOOL;
constexpr v1::DType kComplex = v1::DTYPE_COMPLEX64;

v1::CompileJob JobOf(const GraphBuilder& builder) {
  GraphBuilder copy = builder;
  v1::CompileJob job;
  *job.mutable_graph() = copy.graph();
  job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX512);
  return job;
}

// The scheduled graph; launches and library calls counted.
struct Outcome {
  CompileState state;
  int kernels = 0;
  int calls = 0;
};

std::unique_ptr<Outcome> CompileGraph(const GraphBuilder& builder) {
  auto outcome = std::make_unique<Outcome>();
  static std::vector<std::unique_ptr<v1::CompileJob>> jobs;
  jobs.push_back(std::make_unique<v1::CompileJob>(JobOf(builder)));
  outcome->state.job = jobs.back().get();
  const absl::Status status = compiler::RunPipeline(outcome->state);
  EXPECT_TRUE(status.ok()) << status;
  for (const v1::Step& step : outcome->state.result.artifact().steps()) {
    outcome->kernels += step.has_launch() ? 1 : 0;
    outcome->calls += step.has_call() ? 1 : 0;
  }
  return outcome;
}

std::string Explain(const Outcome& outcome) {
  std::string text = compiler::ToString(outcome.state.program);
  for (const auto& step : outcome.state.schedule.steps) {
    if (const auto* kernel = std::get_if<compiler::Kernel>(&step.work)) {
      text += "kernel\n";
      for (const compiler::Nest& nest : kernel->nests) text += compiler::ToString(nest);
    }
  }
  for (const std::string& note : outcome.state.schedule.notes) text += "note: " + note + "\n";
  return text;
}

#define EXPECT_KERNELS(outcome, count) EXPECT_EQ((outcome)->kernels, count) << Explain(*(outcome))

// Loops are in order from inside to outside although the whole has no elements as it is captured.
TEST(Kernels, RowsThatAreNoneAtCapture) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/8), rows = s + -8;
  const Ref x = g.Input({s, 1}), y = g.Input({4});
  const Ref part = g.Node("aten::slice.Tensor", {x, 0, 8, s, 1}, g.Meta({rows, 1}, kF32, {}, 8));
  g.Output(g.Node("aten::add.Tensor", {part, y, 1}, g.Meta({rows, 4})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

// An operator may leave out what nobody reads (cuDNN's attention does), and its memory is free at
// once.
TEST(Calls, ResultsThatNobodyReadsAreAbsent) {
  GraphBuilder g;
  const Ref x = g.Input({64, 8});
  const Ref sorted = g.Node("aten::sort", {x, -1, false}, {g.Meta({64, 8}), g.Meta({64, 8}, kI64)});
  g.Output(g.Node("aten::neg", {sorted.result(1)}, g.Meta({64, 8}, kI64)));
  auto outcome = CompileGraph(g);
  ASSERT_EQ(outcome->calls, 1);
  const v1::Artifact& artifact = outcome->state.result.artifact();
  const v1::ExternCall& call = artifact.steps(0).call();
  ASSERT_EQ(call.results_size(), 2);
  EXPECT_FALSE(artifact.buffers(call.results(0)).has_meta());
  EXPECT_TRUE(artifact.buffers(call.results(1)).has_meta());
  for (const v1::Step& step : artifact.steps()) {
    if (step.has_free()) {
      EXPECT_EQ(step.free(), call.results(1));
    }
  }
}

TEST(Kernels, SoftmaxIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512});
  g.Output(g.Node("aten::_softmax", {x, -1, false}, g.Meta({64, 512})));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  // The exponentials stay on chip.
  EXPECT_EQ(outcome->state.memory.workspace_bytes, sym::Expr(0));
}

TEST(Kernels, LayerNormGeluScaleIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512}), y = g.Input({64, 512}), w = g.Input({512}), b = g.Input({512}),
            s = g.Input({512});
  const Ref sum = g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({64, 512}));
  const Ref norm = g.Node("aten::native_layer_norm", {sum, Ints({512}), w, b, 1e-5},
                          {g.Meta({64, 512}), g.Meta({64, 1}), g.Meta({64, 1})});
  const Ref gelu = g.Node("aten::gelu", {norm.result(0), "none"}, g.Meta({64, 512}));
  g.Output(g.Node("aten::mul.Tensor", {gelu, s}, g.Meta({64, 512})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

// A sum of halves goes to memory and, in the same kernel, into the sums of its rows. Where others
// read it from memory, the rows' sums are of what they read; else they are of the wider numbers.
TEST(Kernels, NarrowResultsThatOthersReadAreRoundedHereToo) {
  const auto roundings = [](v1::DType dtype, bool is_read, bool is_output) {
    GraphBuilder g;
    const Ref x = g.Input({64, 512}, dtype), y = g.Input({64, 512}, dtype),
              z = g.Input({64, 512}, dtype), w = g.Input({512, 8}, dtype);
    const Ref part = g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({64, 512}, dtype));
    const Ref sum = g.Node("aten::add.Tensor", {part, z, 1}, g.Meta({64, 512}, dtype));
    const Ref wide =
        g.Node("aten::_to_copy", {sum, kF32, nullptr, nullptr, nullptr, false, nullptr},
               g.Meta({64, 512}));
    g.Output(g.Node("aten::sum.dim_IntList", {wide, Ints({-1}), false, nullptr}, g.Meta({64})));
    if (is_read) g.Output(g.Node("aten::mm", {sum, w}, g.Meta({64, 8}, dtype)));
    if (is_output) g.Output(sum);
    auto outcome = CompileGraph(g);
    EXPECT_KERNELS(outcome, 1);
    return CountCalls(outcome->state.kernels.at(0).ir, "round_to", dtype);
  };
  for (const v1::DType dtype : {v1::DTYPE_FLOAT16, v1::DTYPE_BFLOAT16}) {
    EXPECT_GT(roundings(dtype, true, false), 0);
    EXPECT_EQ(roundings(dtype, false, true), 0);   // nobody in the program
    EXPECT_EQ(roundings(dtype, false, false), 0);  // nobody at all
  }
  EXPECT_EQ(roundings(kF32, true, true), 0);
}

TEST(Kernels, RmsNormIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512}), w = g.Input({512});
  const Ref square = g.Node("aten::pow.Tensor_Scalar", {x, 2}, g.Meta({64, 512}));
  const Ref mean = g.Node("aten::mean.dim", {square, Ints({-1}), true, nullptr}, g.Meta({64, 1}));
  const Ref shifted = g.Node("aten::add.Scalar", {mean, 1e-6, 1}, g.Meta({64, 1}));
  const Ref rstd = g.Node("aten::rsqrt", {shifted}, g.Meta({64, 1}));
  const Ref normal = g.Node("aten::mul.Tensor", {x, rstd}, g.Meta({64, 512}));
  g.Output(g.Node("aten::mul.Tensor", {w, normal}, g.Meta({64, 512})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, DropoutWithItsMaskIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512}), seed = g.Input(Shape{}, kI64);
  const Ref u = g.Node("tensord::philox_uniform",
                       {seed, Ints({64, 512}), kF32, v1::DEVICE_TYPE_CPU, 0}, g.Meta({64, 512}));
  const Ref mask = g.Node("aten::ge.Scalar", {u, 0.1}, g.Meta({64, 512}, kBool));
  const Ref kept = g.Node("aten::mul.Tensor", {x, mask}, g.Meta({64, 512}));
  g.Output(g.Node("aten::mul.Scalar", {kept, 1.0 / 0.9}, g.Meta({64, 512})));
  g.Output(mask);
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, TwentyPointwiseInARowAreOne) {
  GraphBuilder g;
  Ref x = g.Input({33, 65});
  const char* ops[] = {"aten::sin", "aten::exp", "aten::tanh", "aten::neg"};
  for (int i = 0; i < 20; ++i) x = g.Node(ops[i % 4], {x}, g.Meta({33, 65}));
  g.Output(x);
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, TenIndependentPointwiseOfOneSizeAreOne) {
  GraphBuilder g;
  std::vector<Ref> inputs;
  for (int i = 0; i < 10; ++i) inputs.push_back(g.Input({100, 30}));
  for (const Ref& x : inputs) g.Output(g.Node("aten::exp", {x}, g.Meta({100, 30})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, CatOfPointwiseIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({16, 20}), y = g.Input({16, 30}), z = g.Input({16, 14});
  const Ref a = g.Node("aten::exp", {x}, g.Meta({16, 20}));
  const Ref b = g.Node("aten::sin", {y}, g.Meta({16, 30}));
  const Ref c = g.Node("aten::neg", {z}, g.Meta({16, 14}));
  g.Output(g.Node("aten::cat", {List({a, b, c}), 1}, g.Meta({16, 64})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

// Llama's, of complex numbers: pairs of neighbours are turned, and back to the narrow type.
TEST(Kernels, ComplexRotaryEmbeddingIsOne) {
  GraphBuilder g;
  const Shape heads = {2, 16, 4, 64}, pairs = {2, 16, 4, 32, 2}, turns = {2, 16, 4, 32};
  const Ref x = g.Input(heads, v1::DTYPE_BFLOAT16), angles = g.Input({2, 16, 32}, kComplex);
  const auto rotated = [&](Ref input, Ref turn) {
    const Ref real = g.Node(
        "aten::_to_copy", {input, kF32, nullptr, nullptr, nullptr, false, nullptr}, g.Meta(heads));
    const Ref paired = g.Node("aten::view", {real, Ints(pairs)}, g.Meta(pairs));
    const Ref z = g.Node("aten::view_as_complex", {paired}, g.Meta(turns, kComplex));
    const Ref each = g.Node("aten::unsqueeze", {turn, 2}, g.Meta({2, 16, 1, 32}, kComplex));
    const Ref turned = g.Node("aten::mul.Tensor", {z, each}, g.Meta(turns, kComplex));
    const Ref parts = g.Node("aten::view_as_real", {turned}, g.Meta(pairs));
    const Ref flat = g.Node("aten::view", {parts, Ints(heads)}, g.Meta(heads));
    return g.Node("aten::_to_copy",
                  {flat, v1::DTYPE_BFLOAT16, nullptr, nullptr, nullptr, false, nullptr},
                  g.Meta(heads, v1::DTYPE_BFLOAT16));
  };
  g.Output(rotated(x, angles));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  EXPECT_EQ(outcome->calls, 0);
  EXPECT_EQ(outcome->state.memory.workspace_bytes, sym::Expr(0));
  // Both of a pair come and go at once.
  const std::string& source = outcome->state.kernels[0].source;
  for (const char* access :
       {"load_even<tk::bfloat16", "load_odd<float", "store_pairs<tk::bfloat16"})
    EXPECT_THAT(source, HasSubstr(access));
}

// Behind the last of these there may be no memory.
TEST(Kernels, EveryOtherElementIsNoPair) {
  GraphBuilder g;
  const Ref x = g.Input({199}), y = g.Input({100});
  const Ref even = g.Node("aten::slice.Tensor", {x, 0, 0, 199, 2}, g.Meta({100}, kF32, {2}));
  g.Output(g.Node("aten::complex", {even, y}, g.Meta({100}, kComplex)));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  const std::string& source = outcome->state.kernels[0].source;
  EXPECT_THAT(source, HasSubstr("store_pairs<float"));
  EXPECT_THAT(source, ::testing::Not(HasSubstr("load_even")));
}

TEST(Kernels, ComplexChainsAreOne) {
  GraphBuilder g;
  const v1::TensorMeta row = g.Meta({100}, kComplex);
  const Ref x = g.Input(row), y = g.Input(row), z = g.Input(row);
  const Ref product = g.Node("aten::mul.Tensor", {x, y}, row);
  const Ref sum = g.Node("aten::add.Tensor", {product, z, 1}, row);
  const Ref conjugate = g.Node("aten::_conj_physical", {sum}, row);
  g.Output(g.Node("aten::div.Tensor", {conjugate, x}, row));
  g.Output(g.Node("aten::abs", {sum}, g.Meta({100})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, EmbeddingThenLayerNormIsOne) {
  GraphBuilder g;
  const Ref table = g.Input({1000, 256}), ids = g.Input({4, 32}, kI64), w = g.Input({256}),
            b = g.Input({256});
  const Ref e = g.Node("aten::embedding", {table, ids, -1, false, false}, g.Meta({4, 32, 256}));
  g.Output(g.Node("aten::native_layer_norm", {e, Ints({256}), w, b, 1e-5},
                  {g.Meta({4, 32, 256}), g.Meta({4, 32, 1}), g.Meta({4, 32, 1})})
               .result(0));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

TEST(Kernels, AddAndTransposeIsOne) {
  GraphBuilder g;
  const Ref x = g.Input({64, 48}), y = g.Input({64, 48});
  const Ref sum = g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({64, 48}));
  const Ref t = g.Node("aten::permute", {sum, Ints({1, 0})}, g.Meta({48, 64}, kF32, {1, 48}));
  g.Output(g.Node("aten::clone", {t, v1::MEMORY_FORMAT_CONTIGUOUS}, g.Meta({48, 64})));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

// How many launches read a program input.
int ReadsOf(const Outcome& outcome, int input) {
  int reads = 0;
  for (const v1::Step& step : outcome.state.result.artifact().steps()) {
    if (!step.has_launch()) continue;
    for (uint32_t id : step.launch().buffers()) {
      const v1::Buffer& buffer = outcome.state.result.artifact().buffers(id);
      reads += buffer.storage_case() == v1::Buffer::kInput &&
               buffer.input() == static_cast<uint32_t>(input);
    }
  }
  return reads;
}

TEST(Kernels, CrossEntropyForwardIsAtMostTwoAndReadsOnce) {
  GraphBuilder g;
  const Ref x = g.Input({128, 1000}), target = g.Input({128}, kI64);
  const Ref logp = g.Node("aten::_log_softmax", {x, 1, false}, g.Meta({128, 1000}));
  const Ref loss = g.Node("aten::nll_loss_forward", {logp, target, nullptr, 1, -100},
                          {g.Meta(Shape{}), g.Meta(Shape{})});
  g.Output(loss.result(0));
  auto outcome = CompileGraph(g);
  EXPECT_LE(outcome->kernels, 2) << Explain(*outcome);
  EXPECT_EQ(ReadsOf(*outcome, 0), 1);
}

class OnePass : public ::testing::TestWithParam<int> {};

// A square input must not mix up rows and columns.
TEST_P(OnePass, SumAmaxMeanOfOneInputReadItOnce) {
  const int columns = GetParam();
  GraphBuilder g;
  const Ref x = g.Input({256, columns});
  const Ref square = g.Node("aten::mul.Tensor", {x, x}, g.Meta({256, columns}));
  g.Output(g.Node("aten::sum", {square, nullptr}, g.Meta(Shape{})));
  g.Output(g.Node("aten::amax", {x, Ints({0}), false}, g.Meta({columns})));
  g.Output(g.Node("aten::mean.dim", {x, Ints({1}), false, nullptr}, g.Meta({256})));
  auto outcome = CompileGraph(g);
  EXPECT_LE(outcome->kernels, 2) << Explain(*outcome);
  EXPECT_EQ(ReadsOf(*outcome, 0), 1);
  for (const compiler::KernelSource& kernel : outcome->state.kernels) {
    EXPECT_THAT(CallsOf(kernel.ir), Not(Contains(HasSubstr("strided")))) << kernel.source;
  }
}
INSTANTIATE_TEST_SUITE_P(Columns, OnePass, ::testing::Values(256, 512));

TEST(Kernels, AdamWOverTwentyParametersIsAtMostTwo) {
  GraphBuilder g;
  struct Parameter {
    Ref p, grad, m, v;
    Shape shape;
  };
  std::vector<Parameter> parameters;
  for (int i = 0; i < 20; ++i) {
    const Shape shape = i % 2 == 0 ? Shape{64, 32 + i} : Shape{32 + i};
    const Ref p = g.Input(shape), grad = g.Input(shape), m = g.Input(shape), v = g.Input(shape);
    parameters.push_back({p, grad, m, v, shape});
  }
  const Ref step = g.Input(Shape{});
  const Ref next = g.Node("aten::add.Scalar", {step, 1.0, 1}, g.Meta(Shape{}));
  g.Node("aten::copy_", {step, next, false}, g.Meta(Shape{}));
  for (const Parameter& p : parameters) {
    const v1::TensorMeta meta = g.Meta(p.shape);
    const Ref decayed = g.Node("aten::mul.Scalar", {p.p, 0.9999}, meta);
    const Ref m = g.Node("aten::lerp.Scalar", {p.m, p.grad, 0.1}, meta);
    const Ref scaled = g.Node("aten::mul.Scalar", {p.v, 0.999}, meta);
    const Ref v = g.Node("aten::addcmul", {scaled, p.grad, p.grad, 0.001}, meta);
    const Ref root = g.Node("aten::sqrt", {v}, meta);
    const Ref bias = g.Node("aten::pow.Scalar", {0.999, next}, g.Meta(Shape{}));
    const Ref rest = g.Node("aten::rsub.Scalar", {bias, 1.0, 1}, g.Meta(Shape{}));
    const Ref corrected = g.Node("aten::div.Tensor", {root, rest}, meta);
    const Ref denominator = g.Node("aten::add.Scalar", {corrected, 1e-8, 1}, meta);
    const Ref updated = g.Node("aten::addcdiv", {decayed, m, denominator, -0.001}, meta);
    g.Node("aten::copy_", {p.p, updated, false}, meta);
    g.Node("aten::copy_", {p.m, m, false}, meta);
    g.Node("aten::copy_", {p.v, v, false}, meta);
  }
  auto outcome = CompileGraph(g);
  EXPECT_LE(outcome->kernels, 2) << Explain(*outcome);
}

TEST(Kernels, LayerNormBackwardReadsRowsOnce) {
  GraphBuilder g;
  const Ref dy = g.Input({256, 512}), x = g.Input({256, 512}), mean = g.Input({256, 1}),
            rstd = g.Input({256, 1}), w = g.Input({512}), b = g.Input({512});
  const Ref back = g.Node("aten::native_layer_norm_backward",
                          {dy, x, Ints({512}), mean, rstd, w, b, List({true, true, true})},
                          {g.Meta({256, 512}), g.Meta({512}), g.Meta({512})});
  for (int i = 0; i < 3; ++i) g.Output(back.result(i));
  EXPECT_KERNELS(CompileGraph(g), 1);
}

// A LayerNorm over [batch, time, width] whose result is wanted as it is and as the rows of a
// product.
TEST(Kernels, ReshapedLayerNormStaysOne) {
  GraphBuilder g;
  const Ref x = g.Input({16, 128, 256}), w = g.Input({256}), b = g.Input({256}),
            p = g.Input({256, 64});
  const Ref norm = g.Node("aten::native_layer_norm", {x, Ints({256}), w, b, 1e-5},
                          {g.Meta({16, 128, 256}), g.Meta({16, 128, 1}), g.Meta({16, 128, 1})});
  const Ref rows = g.Node("aten::view", {norm, Ints({2048, 256})}, g.Meta({2048, 256}));
  const Ref product = g.Node("aten::mm", {rows, p}, g.Meta({2048, 64}));
  for (int i = 0; i < 3; ++i) g.Output(norm.result(i));
  g.Output(product);
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  for (const compiler::KernelSource& kernel : outcome->state.kernels) {
    EXPECT_THAT(CallsOf(kernel.ir), Not(Contains(HasSubstr("gather")))) << kernel.source;
  }
}

TEST(Kernels, EqualLayersShareOneUnit) {
  GraphBuilder g;
  Ref x = g.Input({64, 64});
  std::vector<Ref> weights;
  for (int i = 0; i < 6; ++i) weights.push_back(g.Input({64, 64}));
  for (const Ref& w : weights) {
    x = g.Node("aten::mm", {x, w}, g.Meta({64, 64}));
    x = g.Node("aten::relu", {x}, g.Meta({64, 64}));
  }
  g.Output(x);
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 6);
  EXPECT_EQ(outcome->calls, 6);
  EXPECT_EQ(outcome->state.result.units_size(), 1);
}

TEST(Kernels, DropoutOfSeveralLayersIsOneUnit) {
  GraphBuilder g;
  Ref x = g.Input({64, 64});
  const Ref w = g.Input({64, 64}), seed = g.Input(Shape{}, kI64);
  for (int stream = 0; stream < 4; ++stream) {
    x = g.Node("aten::mm", {x, w}, g.Meta({64, 64}));
    const Ref u =
        g.Node("tensord::philox_uniform", {seed, Ints({64, 64}), kF32, v1::DEVICE_TYPE_CPU, stream},
               g.Meta({64, 64}));
    const Ref mask = g.Node("aten::ge.Scalar", {u, 0.1}, g.Meta({64, 64}, kBool));
    x = g.Node("aten::mul.Tensor", {x, mask}, g.Meta({64, 64}));
  }
  g.Output(x);
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 4);
  EXPECT_EQ(outcome->state.result.units_size(), 1);
}

TEST(Memory, PointwiseResultsTakeTheirOperandsPlace) {
  GraphBuilder g;
  Ref x = g.Input({64, 64});
  const Ref w = g.Input({64, 64});
  for (int i = 0; i < 4; ++i) {
    x = g.Node("aten::mm", {x, w}, g.Meta({64, 64}));
    x = g.Node("aten::tanh", {x}, g.Meta({64, 64}));
  }
  g.Output(g.Node("aten::mm", {x, w}, g.Meta({64, 64})));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 4);
  // A product needs its operand beside it: two buffers in turn, and tanh none of its own.
  EXPECT_EQ(outcome->state.memory.workspace_bytes, sym::Expr(2 * 64 * 64 * 4));
}

// In other shapes too, and beside another nest in one launch.
TEST(Memory, ReshapedResultsTakeTheirOperandsPlaceBesideOtherNests) {
  GraphBuilder g;
  const Ref x = g.Input({64, 64}), w = g.Input({64, 64}), other = g.Input({7, 9, 5});
  const Ref last = g.Input({256, 16});
  const Ref product = g.Node("aten::mm", {x, w}, g.Meta({64, 64}));
  const Ref shaped = g.Node("aten::view", {product, Ints({16, 256})}, g.Meta({16, 256}));
  const Ref y = g.Node("aten::tanh", {shaped}, g.Meta({16, 256}));
  g.Output(g.Node("aten::mm", {y, last}, g.Meta({16, 16})));
  g.Output(g.Node("aten::sin", {other}, g.Meta({7, 9, 5})));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  EXPECT_EQ(outcome->state.memory.workspace_bytes, sym::Expr(64 * 64 * 4)) << Explain(*outcome);
}

// relu(y) and x + y share a pass; relu(y) is written first, so it must not lie over x.
TEST(Memory, AResultDoesNotTakeWhatALaterMemberReads) {
  GraphBuilder g;
  const Ref a = g.Input({64, 64}), b = g.Input({64, 64}), w = g.Input({64, 64});
  const v1::TensorMeta meta = g.Meta({64, 64});
  const Ref x = g.Node("aten::mm", {a, b}, meta), y = g.Node("aten::mm", {b, a}, meta);
  const Ref r = g.Node("aten::relu", {y}, meta);
  const Ref z = g.Node("aten::add.Tensor", {x, y, 1}, meta);
  g.Output(g.Node("aten::mm", {r, w}, meta));
  g.Output(g.Node("aten::mm", {z, w}, meta));
  auto outcome = CompileGraph(g);
  EXPECT_KERNELS(outcome, 1);
  const auto& places = outcome->state.memory.places;
  const compiler::Nest& nest =
      std::get<compiler::Kernel>(outcome->state.schedule.steps[2].work).nests[0];
  ASSERT_EQ(nest.members.size(), 2u);
  const auto& first = nest.members[0].loops;
  const compiler::BufferId written = first.stores[0].buffer;
  for (const compiler::Inst& inst : nest.members[1].loops.block.insts) {
    if (inst.kind != compiler::InstKind::kLoad) continue;
    EXPECT_FALSE(places[inst.buffer].offset == places[written].offset) << Explain(*outcome);
  }
}

TEST(Memory, TransposedResultsDoNot) {
  GraphBuilder g;
  const Ref x = g.Input({64, 64}), w = g.Input({64, 64});
  const Ref product = g.Node("aten::mm", {x, w}, g.Meta({64, 64}));
  const Ref t = g.Node("aten::permute", {product, Ints({1, 0})}, g.Meta({64, 64}, kF32, {1, 64}));
  const Ref copy = g.Node("aten::clone", {t, v1::MEMORY_FORMAT_CONTIGUOUS}, g.Meta({64, 64}));
  const Ref sum = g.Node("aten::tanh", {copy}, g.Meta({64, 64}));
  g.Output(g.Node("aten::mm", {sum, w}, g.Meta({64, 64})));
  auto outcome = CompileGraph(g);
  EXPECT_EQ(outcome->state.memory.workspace_bytes, sym::Expr(2 * 64 * 64 * 4)) << Explain(*outcome);
}

TEST(Compile, TwiceGivesTheSameBytes) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512});
  g.Output(g.Node("aten::_softmax", {x, -1, false}, g.Meta({64, 512})));
  auto a = compiler::Compile(JobOf(g)), b = compiler::Compile(JobOf(g));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->units(0).source(), b->units(0).source());
  EXPECT_EQ(a->artifact().SerializeAsString(), b->artifact().SerializeAsString());
}

}  // namespace schedule_test
}  // namespace tensord::testing
