// SPDX-License-Identifier: Apache-2.0
// The kernel IR's builder, text, printers and table of prelude functions.
#include "compiler/kernel_ir/kernel_ir.h"

#include <absl/strings/ascii.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/codegen/print.h"
#include "compiler/kernel_ir/builder.h"
#include "compiler/kernel_ir/prelude.h"
#include "compiler/kernel_ir/text.h"
#include "kernels/embedded.h"

namespace tensord::compiler::ir {
namespace kernel_ir_test {

using ::testing::HasSubstr;

const Value kWidthName = IntVar("W");

Value LoadOf(const Value& pointer, const Value& index) {
  return CallOf("load", {ScalarType(kFloat32), kWidthName}, {pointer + index});
}

// ---- Builder

TEST(LevelBuilder, FindsEqualValuesAtTheirLevelAndOutsideOfIt) {
  LevelBuilder builder(3);
  const Value x = Var("b0", PointerTo(ScalarType(kFloat32), true));
  const Value outer = builder.Define(0, LoadOf(x, 0));
  EXPECT_EQ(ToString(outer), "v0");
  EXPECT_EQ(outer.type(), VectorType(kFloat32, kWidth));
  EXPECT_EQ(ToString(builder.Define(2, LoadOf(x, 0))), "v0");
  EXPECT_EQ(ToString(builder.Define(2, LoadOf(x, IndexVar("i1")))), "v1");
  // Inner names are not known outside.
  EXPECT_EQ(ToString(builder.Define(1, LoadOf(x, IndexVar("i1")))), "v2");
  EXPECT_EQ(builder.at(0).size(), 1u);
  EXPECT_EQ(builder.at(1).size(), 1u);
  EXPECT_EQ(builder.at(2).size(), 1u);
}

TEST(LevelBuilder, KnowsWhatItTookAndNotWhatItForgot) {
  LevelBuilder builder(1);
  const Value value = CallOf("broadcast", {Value(1)}, {NumberOf(kFloat32, 2, 0)});
  builder.Define(0, value);
  EXPECT_EQ(builder.Take(0).size(), 1u);
  EXPECT_EQ(ToString(builder.Define(0, value)), "v0");
  EXPECT_TRUE(builder.at(0).empty());
  builder.Forget(0);
  EXPECT_EQ(ToString(builder.Define(0, value)), "v1");
}

// ---- Types of results

TEST(ResultTypes, FollowFromTheTable) {
  const Value half = Var("b0", PointerTo(ScalarType(v1::DTYPE_FLOAT16)));
  const Value x = CallOf("load", {ScalarType(v1::DTYPE_FLOAT16), Value(1)}, {half});
  EXPECT_EQ(x.type(), VectorType(kFloat32, 1));
  EXPECT_EQ(CallOf("lt", {x, x}).type(), MaskType(1));
  EXPECT_EQ(CallOf("splat", {kWidthName}, {x}).type(), VectorType(kFloat32, kWidth));
  EXPECT_EQ(CallOf("reduce_sum", {x}).type(), ScalarType(kFloat32));
  const Value state = CallOf("welford_start", {ScalarType(kFloat64), kWidthName}, {});
  EXPECT_EQ(state.type(), StateType(ReduceKind::kWelford, kFloat64, kWidth));
  EXPECT_EQ(FieldOf(CallOf("welford_reduce", {state}), "m2").type(), VectorType(kFloat64, 1));
}

// ---- Text and printers

Kernel CpuKernel() {
  const Value b0 = Var("b0", PointerTo(ScalarType(kFloat32), true));
  const Value b1 = Var("b1", PointerTo(ScalarType(kFloat32)));
  const Value i0 = IndexVar("i0"), n0 = IndexVar("n0");
  const Value sum = CallOf("add", {Var("v0", VectorType(kFloat32, kWidth)),
                                   CallOf("broadcast", {kWidthName}, {NumberOf(kFloat32, 1, 0)})});
  Block body = {Let("v0", LoadOf(b0, i0)),
                Do(CallOf("store", {ScalarType(kFloat32), kWidthName}, {b1 + i0, sum}))};
  Kernel kernel{.device = Kernel::kCpu, .buffers = 2, .integers = 1, .written = {1}};
  kernel.functions = {
      {.name = "nest0",
       .parameters = {{.name = "args", .type = kArgumentsType},
                      {"begin", kIndexType},
                      {"end", kIndexType},
                      {.name = "scratch", .type = BytesType()}},
       .body = {{Declare{.bindings = {{"W", CallOf("kLanes", {})}},
                         .type = kIntType,
                         .mutability = Declare::kConstexpr}},
                {BindPointer{"b0", b0.type(), 0}},
                {BindPointer{"b1", b1.type(), 1}},
                {BindInteger{"n0", 0}},
                Loop("i0", 0, i0 + (kWidthName - 1) < n0, kWidthName, std::move(body))}}};
  kernel.cpu = CpuEntry{.name = "tensord_kernel",
                        .work_of_task = 1000,
                        .integers = {{BindInteger{"n0", 0}}},
                        .stride = 0,
                        .nests = {{"nest0", (n0 + 63) / 64, n0 * 3, ""}}};
  return kernel;
}

TEST(KernelIr, Text) {
  EXPECT_EQ(ToString(CpuKernel()),
            R"(nest nest0(args: arguments, begin: index, end: index, scratch: byte*) {
  const W: int = kLanes()
  let b0: float32 const* = buffer(0)
  let b1: float32* = buffer(1)
  let n0: index = integer(0)
  for i0: index = 0 while ((i0 + (W - 1)) < n0) step W {
    let v0: vector<float32, W> = load<float32, W>((b0 + i0))
    store<float32, W>((b1 + i0), add(v0, broadcast<W>(float32(1))))
  }
}

entry tensord_kernel {
  let n0: index = integer(0)
  a task for 1000 operations, scratch 0
  run nest0 units ((n0 + 63) / 64) work (n0 * 3)
}
)");
}

TEST(KernelIr, Cpp) {
  const std::string text = PrintCpp(CpuKernel());
  EXPECT_THAT(text, HasSubstr("static void nest0(const TensordKernelArgs* args, "
                              "int64_t begin, int64_t end, char* scratch) {\n"
                              "  constexpr int W = tk::kLanes;\n"
                              "  const float* const b0 = static_cast<const float*>("
                              "args->buffers[0]);\n"
                              "  float* const b1 = static_cast<float*>(args->buffers[1]);\n"
                              "  const int64_t n0 = args->integers[0];\n"
                              "  for (int64_t i0 = 0; i0 + (W - 1) < n0; i0 += W) {\n"
                              "    const auto v0 = tk::load<float, W>(b0 + i0);\n"
                              "    tk::store<float, W>(b1 + i0, tk::add(v0, "
                              "tk::broadcast<W>(float(1))));\n  }\n}\n"));
  EXPECT_THAT(text, HasSubstr("const int64_t units0 = (n0 + 63) / 64;\n"
                              "  const int64_t work = n0 * 3;\n"));
}

TEST(KernelIr, Cuda) {
  Kernel kernel{.device = Kernel::kCuda, .wide_index = false, .buffers = 1, .written = {0}};
  const Value tile = Var("tile", PointerTo(ScalarType(kFloat32)));
  const Value q = IndexVar("q");
  kernel.functions = {{.name = "nest0",
                       .parameters = {{"args", kArgumentsType},
                                      {"block", kIntType, true},
                                      {"shared", kGroupMemoryType}},
                       .body = {{BindPointer{"b0", PointerTo(ScalarType(v1::DTYPE_BFLOAT16)), 0}},
                                {BindShared{"tile", tile.type(), 16, 64}},
                                {For{.variable = "q",
                                     .first = Thread(),
                                     .condition = q < 16,
                                     .step = 32,
                                     .body = {Set(At(tile, q), NumberOf(kFloat32, 0, 0))},
                                     .unroll = For::kWhole}},
                                {Barrier{}},
                                {If{.condition = Not(Thread() == 0),
                                    .then = {{Return{}}},
                                    .otherwise = {When(And(q > 1, q <= 2), {})}}}},
                       .threads = 32,
                       .group = 32,
                       .shared_bytes = 80}};
  kernel.cuda = {{.name = "tensord_x",
                  .threads = 32,
                  .resident = 2,
                  .shared_bytes = 80,
                  .waits = true,
                  .parts = {{CallOfFunction("nest0", {Var("args", kArgumentsType), IntVar("block"),
                                                      Var("shared", kGroupMemoryType)}),
                             {}}}}};
  const std::string text = PrintCuda(kernel);
  EXPECT_THAT(text, HasSubstr("using index = int;\n"
                              "extern __shared__ __align__(16) char shared_rows[];\n"));
  EXPECT_THAT(
      text,
      HasSubstr("static __device__ __forceinline__ void nest0(const Args& args, const int block, "
                "tk::GroupMemory& shared) {\n"
                "  tk::bfloat16* __restrict__ const b0 = static_cast<tk::bfloat16*>(args.b[0]);\n"
                "  float* const tile = reinterpret_cast<float*>(shared_rows + 16);\n"
                "#pragma unroll\n"
                "  for (index q = threadIdx.x; q < 16; q += 32)\n"
                "    tile[q] = float(0);\n"
                "  __syncthreads();\n"
                "  if (!(threadIdx.x == 0)) {\n    return;\n  } else if (q > 1 && q <= 2) {\n"));
  EXPECT_THAT(text, HasSubstr("__launch_bounds__(32, 2) tensord_x("));
  EXPECT_THAT(text, HasSubstr("tk::wait_for_launches();\n"));
}

// Operands in parentheses where C++ would bind them otherwise, and only there.
TEST(KernelIr, Precedence) {
  const Value a = IndexVar("a"), b = IndexVar("b"), c = IndexVar("c");
  const auto text = [](const Value& value) {
    Kernel kernel = CpuKernel();
    kernel.functions[0].body = {LetIndex("x", value)};
    const std::string all = PrintCpp(kernel);
    const size_t begin = all.find("x = ") + 4;
    return all.substr(begin, all.find(';', begin) - begin);
  };
  EXPECT_EQ(text((a + b) * c), "(a + b) * c");
  EXPECT_EQ(text(a + b * c), "a + b * c");
  EXPECT_EQ(text(a - (b - c)), "a - (b - c)");
  EXPECT_EQ(text(a - b - c), "a - b - c");
  EXPECT_EQ(text(a * (b / c)), "a * (b / c)");
  EXPECT_EQ(text(-(a + b)), "-(a + b)");
  EXPECT_EQ(text(a / b % c), "a / b % c");
  EXPECT_EQ(text(a + (b - 1)), "a + (b - 1)");
  EXPECT_EQ(text(-a & (b - 1)), "-a & (b - 1)");
  EXPECT_EQ(text(Choose(a < b, a, b)), "a < b ? a : b");
  EXPECT_EQ(text(CastTo(kIndexType, a) * b), "static_cast<int64_t>(a) * b");
}

// ---- The table of prelude functions

bool Defines(std::span<const kernels::EmbeddedFile> prelude, std::string name) {
  if (const size_t of = name.find("::"); of != name.npos) name = name.substr(of + 2);
  for (const kernels::EmbeddedFile& file : prelude) {
    for (size_t at = file.contents.find(name); at != file.contents.npos;
         at = file.contents.find(name, at + 1)) {
      const char before = at == 0 ? ' ' : file.contents[at - 1];
      const char after = file.contents[at + name.size()];
      const bool is_word = !absl::ascii_isalnum(before) && before != '_';
      if (is_word && (after == '(' || after == ' ' || after == ',')) return true;
    }
  }
  return false;
}

TEST(Prelude, HasEveryFunctionOfTheTable) {
  for (const PreludeFunction& function : PreludeFunctions()) {
    const std::string name(function.name);
    if ((function.devices & PreludeFunction::kCpu) != 0) {
      EXPECT_TRUE(Defines(kernels::CpuPrelude(), name)) << name;
    }
    if ((function.devices & PreludeFunction::kCuda) != 0) {
      EXPECT_TRUE(Defines(kernels::CudaPrelude(), name)) << name;
    }
  }
}

TEST(Prelude, FindsOverloadsAndScalarOperations) {
  EXPECT_EQ(FindPrelude("combine_groups", 2, 3)->result, '0');
  EXPECT_EQ(FindPrelude("combine_groups", 3, 3)->result, '-');
  EXPECT_EQ(FindPrelude("fma", 0, 3)->devices, PreludeFunction::kBoth);
  EXPECT_EQ(FindPrelude("fma", 0, 2), nullptr);
  EXPECT_EQ(FindPrelude("nonsense", 0, 1), nullptr);
}

}  // namespace kernel_ir_test
}  // namespace tensord::compiler::ir
