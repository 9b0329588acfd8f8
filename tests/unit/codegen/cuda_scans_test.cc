// SPDX-License-Identifier: Apache-2.0
// Scans on CUDA: which threads take the prefixes of rows and of columns, and that the numbers are
// what the loop IR and eager say.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "compiler/ops/operators.h"
#include "compiler/pipeline.h"
#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/cuda_kernel_runner.h"
#include "tests/unit/testing/cuda_tests.h"
#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/kept_jit.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace {

namespace ir = compiler::ir;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kF64 = v1::DTYPE_FLOAT64;
constexpr v1::DType kBF16 = v1::DTYPE_BFLOAT16, kF16 = v1::DTYPE_FLOAT16, kI64 = v1::DTYPE_INT64;
constexpr v1::DType kI32 = v1::DTYPE_INT32, kBool = v1::DTYPE_BOOL;

// A scan of an input: operator, sizes, dimension.
struct Scan {
  Shape sizes;
  int dim;
  std::string op = "aten::cumsum";
  v1::DType dtype = kF32;
  Shape strides = {};
};

Ref Apply(GraphBuilder& g, const Scan& s, Ref x) {
  const bool extreme = s.op == "aten::cummax" || s.op == "aten::cummin";
  const bool integers = !compiler::IsFloating(s.dtype);
  if (extreme) return g.Node(s.op, {x, s.dim}, {g.Meta(s.sizes, s.dtype), g.Meta(s.sizes, kI64)});
  const v1::TensorMeta meta = g.Meta(s.sizes, integers ? kI64 : s.dtype);
  if (s.op == "aten::logcumsumexp") return g.Node(s.op, {x, s.dim}, meta);
  return g.Node(s.op, {x, s.dim, nullptr}, meta);
}
GraphBuilder Scanned(const Scan& s) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref result = Apply(g, s, g.Input(s.sizes, s.dtype, s.strides));
  g.Output(result);
  if (s.op == "aten::cummax" || s.op == "aten::cummin") g.Output(result.result(1));
  return g;
}
// Of a size that is known when the kernels run.
GraphBuilder Symbolic(const std::string& op, int dim, int hint, v1::DType dtype = kF32) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Dim size = g.Symbol(hint);
  const Shape sizes = dim == 0 ? Shape{size, 5} : Shape{5, size};
  const Scan s{sizes, dim, op, dtype};
  return g.Output(Apply(g, s, g.Input(sizes, dtype)));
}
// cumsum(2 x, dim) + y
GraphBuilder Between(const Shape& sizes, int dim) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const v1::TensorMeta meta = g.Meta(sizes);
  const Ref x = g.Input(meta), y = g.Input(meta);
  const Ref doubled = g.Node("aten::mul.Scalar", {x, 2}, meta);
  const Ref sums = Apply(g, {sizes, dim}, doubled);
  return g.Output(g.Node("aten::add.Tensor", {sums, y, 1}, meta));
}
// As in sampling from the most probable tokens.
GraphBuilder MostProbable(const Shape& sizes) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input(sizes);
  const Ref p = g.Node("aten::_softmax", {x, 1, false}, g.Meta(sizes));
  const Ref sums = Apply(g, {sizes, 1}, p);
  g.Output(g.Node("aten::lt.Scalar", {sums, 0.9}, g.Meta(sizes, kBool)));
  return g.Output(p);
}
// The sums of a row, and what they come to.
GraphBuilder Reduced(const Shape& sizes) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref sums = Apply(g, {sizes, 1}, g.Input(sizes));
  g.Output(sums);
  return g.Output(g.Node("aten::amax", {sums, Ints({1}), false}, g.Meta({sizes[0]})));
}
// A scan of a scan, with rows of several loops in between.
GraphBuilder Twice(int rows, int parts, int columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Shape sizes{rows, parts * columns}, split{rows, parts, columns};
  const Ref x = g.Input(sizes), y = g.Input(Shape{parts, 1});
  const Ref sums = Apply(g, {sizes, 1}, x);
  const Ref view = g.Node("aten::view", {sums, Ints({rows, parts, columns})}, g.Meta(split));
  const Ref added = g.Node("aten::add.Tensor", {view, y, 1}, g.Meta(split));
  const Ref back = g.Node("aten::view", {added, Ints({rows, parts * columns})}, g.Meta(sizes));
  return g.Output(Apply(g, {sizes, 1, "aten::cummax"}, back));
}
// Of reversed rows, as a gradient is.
GraphBuilder Backwards(const Shape& sizes) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref flipped = g.Node("aten::flip", {g.Input(sizes), Ints({1})}, g.Meta(sizes));
  const Ref sums = Apply(g, {sizes, 1}, flipped);
  return g.Output(g.Node("aten::flip", {sums, Ints({1})}, g.Meta(sizes)));
}
// Of rows, and of columns: reductions over what is scanned along.
GraphBuilder ReducedOverRows(const Shape& sizes) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input(sizes);
  g.Output(Apply(g, {sizes, 1}, x));
  g.Output(g.Node("aten::sum.dim_IntList", {x, Ints({0}), false, nullptr}, g.Meta({sizes[1]})));
  return g.Output(g.Node("aten::sum", {x, nullptr}, g.Meta(Shape{})));
}

TEST(CudaScans, Rows) {
  std::vector<CudaCase> cases;
  const auto add = [&](int columns, v1::DType dtype, const std::string& plan) {
    cases.push_back({absl::StrCat(columns, " of type ", dtype),
                     Scanned({{5, columns}, 1, "aten::cumsum", dtype}),
                     {plan}});
  };
  add(2, kF32, "scan-rows w2 t32 g1 c1");
  add(31, kF32, "scan-rows w1 t32 g32 c1");
  add(33, kF32, "scan-rows w1 t64 g64 c1");
  add(64, kF32, "scan-rows w4 t32 g16 c1");
  add(1023, kF32, "scan-rows w1 t256 g256 c4 loads-first");
  add(1025, kF32, "scan-rows w1 t288 g288 c4 loads-first");
  add(4096, kF32, "scan-rows w4 t256 g256 c4 loads-first");
  add(5000, kF32, "scan-rows w4 t320 g320 c4 loads-first");
  add(50257, kF32, "scan-rows w1 t1024 g1024 c0 loads-first");
  add(60000, kBF16, "scan-rows w8 t1024 g1024 c0 loads-first");
  add(4096, kBF16, "scan-rows w8 t128 g128 c4 loads-first");
  add(4096, kF64, "scan-rows w2 t512 g512 c4 loads-first");
  add(1000, kI32, "scan-rows w2 t128 g128 c4 loads-first");
  add(1000, kBool, "scan-rows w2 t128 g128 c4 loads-first");
  ExpectPlansAndNumbers(cases);
}

TEST(CudaScans, Operators) {
  std::vector<CudaCase> cases;
  const std::string rows = "scan-rows w2 t64 g32 c4 loads-first";
  const std::string columns = "columns w1 t64 g1 c0 rows8";
  for (const char* op : {"aten::cumprod", "aten::cummax", "aten::cummin", "aten::logcumsumexp"}) {
    cases.push_back({op, Scanned({{9, 250}, 1, op}), {rows}});
    cases.push_back({absl::StrCat(op, " of columns"), Scanned({{9, 250}, 0, op}), {columns}});
  }
  cases.push_back({"ties",
                   Scanned({{9, 250}, 1, "aten::cummax", kI32}),
                   {"scan-rows w2 t64 g32 c4 loads-first"}});
  cases.back().classes = 5;
  cases.push_back({"wide",
                   Scanned({{3, 250}, 1, "aten::logcumsumexp", kF64}),
                   {"scan-rows w2 t64 g64 c2 loads-first"}});
  ExpectPlansAndNumbers(cases);
}

TEST(CudaScans, Columns) {
  ExpectPlansAndNumbers({
      {"few", Scanned({{50, 130}, 0}), {"columns w1 t64 g1 c0 rows32"}},
      {"many", Scanned({{9, 8192}, 0}), {"columns w4 t128 g1 c0 rows4"}},
      {"many narrow",
       Scanned({{9, 32768}, 0, "aten::cumsum", kBF16}),
       {"columns w8 t128 g1 c0 rows4"}},
      {"inside", Scanned({{3, 50, 130}, 1}), {"columns w1 t128 g1 c0 rows32"}},
      {"long", Scanned({{1000, 6}, 0}), {"scan-rows w1 t256 g256 c4 loads-first"}},
      {"long inside",
       Scanned({{3, 200, 7}, 1, "aten::cummin"}),
       {"scan-rows w1 t64 g64 c4 loads-first"}},
      {"across",
       Scanned({{64, 96}, 1, "aten::cumsum", kF32, {1, 64}}),
       {"scan-rows w4 t128 g32 c1"}},
  });
}

TEST(CudaScans, ShareRowsWithWhatIsAroundThem) {
  ExpectPlansAndNumbers({
      {"pointwise", Between({5, 333}, 1), {"scan-rows w1 t96 g96 c4 loads-first"}},
      {"pointwise of long rows",
       Between({2, 20001}, 1),
       {"scan-rows w1 t1024 g1024 c20 loads-first", "elements w2 t256 g1 c0"}},
      {"pointwise of columns",
       Between({33, 60}, 0),
       {"columns w1 t32 g1 c0 rows32", "elements w4 t256 g1 c0"}},
      {"softmax", MostProbable({6, 333}), {"scan-rows w1 t96 g96 c4"}},
      {"softmax of long rows",
       MostProbable({2, 50257}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "scan-rows w1 t1024 g1024 c0 loads-first", "elements w2 t256 g1 c0"}},
      {"softmax of longer rows",
       MostProbable({2, 80001}),
       {"rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "rows w4 t1024 g1024 c0 interleaved", "rows w4 t1024 g1024 c0 interleaved",
        "scan-rows w1 t1024 g1024 c0 loads-first", "elements w2 t256 g1 c0"}},
      {"maximum", Reduced({5, 1001}), {"scan-rows w1 t256 g256 c4 loads-first"}},
      {"twice", Twice(4, 6, 37), {"scan-rows w1 t64 g64 c4 loads-first"}},
      {"backwards",
       Backwards({5, 700}),
       {"scan-rows w4 t64 g64 c3 loads-first", "elements w4 t256 g1 c0"}},
      {"over rows",
       ReducedOverRows({300, 40}),
       {"scan-rows w4 t256 g8 c2 loads-first", "sweep w4 t256 g16 c1 loops"}},
  });
}

TEST(CudaScans, Symbolic) {
  std::vector<CudaCase> cases;
  const std::string rows = "scan-rows w1 t256 g256 c0 loads-first";
  const std::string short_rows = "scan-rows w1 t32 g32 c0 loads-first";
  const std::string columns = "columns w1 t32 g1 c0 rows16";
  for (const int64_t size : {1, 2, 31, 1025, 9000}) {
    cases.push_back({absl::StrCat("rows of ", size), Symbolic("aten::cumsum", 1, 1000), {rows}});
    cases.push_back(
        {absl::StrCat("short rows of ", size), Symbolic("aten::cummax", 1, 20), {short_rows}});
    cases.push_back(
        {absl::StrCat("columns of ", size), Symbolic("aten::cumprod", 0, 20), {columns}});
    for (size_t i = cases.size() - 3; i < cases.size(); ++i) cases[i].symbols = {{0, size}};
  }
  ExpectPlansAndNumbers(cases);
}

// Of few long rows each is several blocks', and of few long columns each several threads'.
TEST(CudaScans, Parts) {
  std::vector<CudaCase> cases;
  const auto add = [&](const std::string& name, GraphBuilder graph,
                       const std::vector<std::string>& plans) {
    cases.push_back({name, std::move(graph), plans, /*multiprocessors=*/132});
  };
  const std::string of_four = "scan-rows w4 t256 g256 c0 loads-first parts9";
  add("aligned rows", Scanned({{2, 40000}, 1}), {of_four});
  add("odd rows", Scanned({{3, 32771}, 1}), {"scan-rows w1 t256 g256 c0 loads-first parts16"});
  add("narrow rows", Scanned({{2, 65536}, 1, "aten::cumsum", kBF16}),
      {"scan-rows w8 t256 g256 c0 loads-first parts16"});
  add("wide rows", Scanned({{1, 40000}, 1, "aten::cumsum", kF64}),
      {"scan-rows w2 t256 g256 c0 loads-first parts9"});
  add("extremes and places", Scanned({{2, 40000}, 1, "aten::cummin", kF32}),
      {"scan-rows w2 t256 g256 c0 loads-first parts9"});
  add("logarithms", Scanned({{2, 40000}, 1, "aten::logcumsumexp"}), {of_four});
  add("pointwise", Between({2, 40000}, 1), {of_four, "elements w4 t256 g1 c0"});
  add("columns", Scanned({{200, 2052}, 0}), {"columns w4 t128 g1 c0 rows16 parts6"});
  add("columns of odd rows", Scanned({{163, 2051}, 0}), {"columns w1 t128 g1 c0 rows64 parts5"});
  add("long columns", Scanned({{2100, 260}, 0}), {"columns w4 t128 g1 c0 rows16 parts64"});
  add("columns inside", Scanned({{2, 130, 1024}, 1, "aten::cummax", kF64}),
      {"columns w2 t128 g1 c0 rows16 parts4"});
  ExpectPlansAndNumbers(cases);
}

TEST(CudaScans, PartsOfSymbolicSizes) {
  std::vector<CudaCase> cases;
  for (const int64_t size : {1, 300, 33000}) {
    cases.push_back({absl::StrCat("rows of ", size),
                     Symbolic("aten::cumsum", 1, 50000),
                     {"scan-rows w1 t256 g256 c0 loads-first parts24"},
                     132});
    cases.push_back({absl::StrCat("extremes of ", size),
                     Symbolic("aten::cummax", 1, 50000, kI32),
                     {"scan-rows w1 t256 g256 c0 loads-first parts24"},
                     132});
    for (size_t i = cases.size() - 2; i < cases.size(); ++i) cases[i].symbols = {{0, size}};
  }
  for (const int64_t size : {1, 31, 150}) {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Dim length = g.Symbol(1000);
    const Shape sizes{length, 2048};
    g.Output(Apply(g, {sizes, 0}, g.Input(sizes)));
    cases.push_back({absl::StrCat("columns of ", size),
                     std::move(g),
                     {"columns w4 t128 g1 c0 rows4 parts31"},
                     132});
    cases.back().symbols = {{0, size}};
  }
  ExpectPlansAndNumbers(cases);
}

// Launches before the scan find what its parts come to: one, and one more for what is scanned of
// prefixes. They write nothing but that.
TEST(CudaScans, OfPartsHaveLaunchesBefore) {
  const auto entries = [](const Scan& scan) {
    std::vector<std::string> names;
    const CudaCase c{"", Scanned(scan), {}, 132};
    const ir::Kernel kernel = KernelsOf(c).at(0);
    for (const ir::CudaEntry& entry : kernel.cuda) names.push_back(entry.name);
    return names;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(entries({{2, 40000}, 1}), ElementsAre("tensord_n_totals1", "tensord_n"));
  EXPECT_THAT(entries({{2, 40000}, 1, "aten::cummax"}),
              ElementsAre("tensord_n_totals1", "tensord_n_totals2", "tensord_n"));
  EXPECT_THAT(entries({{70, 40000}, 1}), ElementsAre("tensord_n"));
  EXPECT_THAT(entries({{2, 30000}, 1}), ElementsAre("tensord_n"));
}

// Many short rows have fewer threads each, which load several vectors.
TEST(CudaScans, ShortRows) {
  ExpectPlansAndNumbers({
      {"many", Scanned({{2100, 100}, 1}), {"scan-rows w4 t128 g8 c4 loads-first"}},
      {"fewer", Scanned({{200, 100}, 1}), {"scan-rows w4 t128 g16 c2 loads-first"}},
      {"tiny", Scanned({{2100, 8}, 1}), {"scan-rows w4 t128 g2 c1"}},
      {"softmax", MostProbable({2100, 100}), {"scan-rows w4 t128 g8 c4"}},
  });
}

// A thread looks for its vectors only where some may not be there.
TEST(CudaScans, WholeRowsNeedNoConditions) {
  const auto text_of = [](int columns) {
    const CudaCase c{"", Scanned({{5, columns}, 1}), {}};
    return ir::ToString(KernelsOf(c).at(0));
  };
  EXPECT_THAT(text_of(4096), Not(HasSubstr("exists")));
  EXPECT_THAT(text_of(4100), HasSubstr("let exists: bool = (place < vectors)"));
}

// Both scans of an extreme and its place are the threads' together, then each stores by itself.
TEST(CudaScans, OfARowMeetOnceForEachScan) {
  const CudaCase c{"", Scanned({{5, 1023}, 1, "aten::cummax"}), {}};
  const ir::Kernel kernel = KernelsOf(c).at(0);
  EXPECT_EQ(std::ranges::count(CallsOf(kernel), "group_scan"), 2);
  const CudaCase columns{"", Scanned({{50, 9999}, 0, "aten::cummax"}), {}};
  EXPECT_THAT(CallsOf(KernelsOf(columns).at(0)), Not(Contains("group_scan")));
}

// ---- Eager's results

struct Compiled {
  const GoldenCase* golden;
  v1::CompileJob job;
  compiler::CompileState state;
};

// What a tree of products cannot have: parts of them are beyond float64 where no prefix is.
bool NeedsOrder(const GoldenCase& golden) {
  return golden.graph.nodes(0).op() == "aten::cumprod" &&
         std::ranges::any_of(golden.inputs.at(0).Values(),
                             [](double x) { return std::isfinite(x) && std::fabs(x) > 1e100; });
}

// The golden case as a job captures it on a GPU.
std::unique_ptr<Compiled> OnGpu(const GoldenCase& golden) {
  auto compiled = std::make_unique<Compiled>(Compiled{.golden = &golden});
  v1::Graph* graph = compiled->job.mutable_graph();
  *graph = golden.graph;
  for (v1::Input& input : *graph->mutable_inputs()) {
    input.mutable_tensor()->set_device(v1::DEVICE_TYPE_CUDA);
  }
  for (v1::Node& node : *graph->mutable_nodes()) {
    for (v1::TensorMeta& output : *node.mutable_outputs()) output.set_device(v1::DEVICE_TYPE_CUDA);
  }
  v1::CudaTarget* target = compiled->job.mutable_target()->mutable_cuda();
  target->set_sm(90);
  target->set_multiprocessors(132);
  compiled->state.job = &compiled->job;
  const absl::Status status = compiler::RunPipeline(compiled->state);
  EXPECT_TRUE(status.ok()) << golden.name << ": " << status;
  return compiled;
}

TEST(CudaScans, GiveEagersNumbers) {
  std::vector<std::unique_ptr<Compiled>> compiled;
  std::vector<const compiler::KernelSource*> kernels;
  for (const GoldenCase& golden : GoldenCases()) {
    const compiler::Operator* op = compiler::FindOperator(golden.graph.nodes(0).op());
    if (!compiler::IsOfKind(op, compiler::OperatorKind::kScan) || NeedsOrder(golden)) continue;
    compiled.push_back(OnGpu(golden));
    for (const auto& kernel : compiled.back()->state.kernels) kernels.push_back(&kernel);
  }
  EXPECT_GE(compiled.size(), 60u);
  CudaKernelLibrary library;
  const absl::Status built = library.Build(kernels);
  ASSERT_TRUE(built.ok()) << built;
  const auto launch = [&](const compiler::KernelSource& kernel, const KernelArguments& arguments) {
    library.Launch(kernel, arguments);
  };
  for (const auto& c : compiled) {
    SCOPED_TRACE(c->golden->name);
    std::vector<HostTensor> inputs = c->golden->inputs;
    ExpectResults(*c->golden, RunSchedule(c->state, launch, inputs));
  }
}

// ---- NVRTC

std::vector<CudaCase> CasesOfEveryType() {
  std::vector<CudaCase> cases;
  for (const std::string op :
       {"aten::cumsum", "aten::cumprod", "aten::cummax", "aten::logcumsumexp"}) {
    for (const v1::DType dtype : {kF32, kF64, kBF16, kF16, kI32, kI64, kBool}) {
      if (op == "aten::logcumsumexp" && !compiler::IsFloating(dtype)) continue;
      const auto add = [&](const Shape& sizes, int dim) {
        cases.push_back({absl::StrCat(op, " ", dtype, " ", cases.size()),
                         Scanned({sizes, dim, op, dtype}),
                         {},
                         132});
      };
      add({500, 100}, 1);
      add({5, 4100}, 1);
      add({5, 50257}, 1);
      add({100, 500000}, 0);
      if (op != "aten::cumprod") add({5, 400000}, 1);
      add({4096, 4096}, 0);
      add({30000, 100}, 1);
      add({100, 50}, 0);
    }
  }
  cases.push_back({"most probable", MostProbable({600, 1000}), {}, 132});
  cases.push_back({"between", Between({333, 4000}, 1), {}, 132});
  cases.push_back({"twice", Twice(400, 6, 37), {}, 132});
  cases.push_back({"symbolic rows", Symbolic("aten::cummax", 1, 1000), {}, 132});
  cases.push_back({"symbolic columns", Symbolic("aten::cumsum", 0, 100), {}, 132});
  return cases;
}

TEST(CudaScans, CompileInEveryTypeWithoutSpills) {
  if (CudaTestsAreOff()) GTEST_SKIP() << "TENSORD_NO_CUDA_TESTS=1";
  jit::JitConfig config;
  if (const char* nvrtc = std::getenv("TENSORD_NVRTC")) config.nvrtc = nvrtc;
  config.work_folder = ::testing::TempDir();
  config.parallelism = 2;
  v1::JitJob job;
  std::vector<std::string> names;
  for (const CudaCase& c : CasesOfEveryType()) {
    for (const v1::KernelUnit& unit : UnitsOf(c)) {
      *job.add_units() = unit;
      names.push_back(c.name);
    }
  }
  job.mutable_target()->mutable_cuda()->set_sm(90);
  const auto result = KeptJit(job, config);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const auto& failure : result->failures()) {
    ADD_FAILURE() << job.units(failure.unit()).source() << failure.log();
  }
  for (int i = 0; i < result->resources_size(); ++i) {
    EXPECT_EQ(result->resources(i).spill_bytes(), 0) << names[i] << "\n" << job.units(i).source();
    EXPECT_LE(result->resources(i).registers(), 128) << names[i] << "\n" << job.units(i).source();
  }
}

}  // namespace
}  // namespace tensord::testing
