// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude through NVRTC, without a GPU: every function for every storage type compiles for
// the architectures and spills no registers, and vectors move in accesses of 16 bytes. Everything
// is tried on sm_90. What the source says otherwise for others is about floats (ptx.cuh), with
// which they are tried; sm_80 and sm_100 with all else that keeps many registers, too.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "tests/unit/testing/cuda_tests.h"
#include "tests/unit/testing/nvrtc_compiler.h"

namespace {

using nvrtc_compiler::Compiled;
using nvrtc_compiler::Compiler;

const Compiler& TheCompiler() {
  static const Compiler compiler;
  return compiler;
}

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (tensord::testing::CudaTestsAreOff()) GTEST_SKIP() << "TENSORD_NO_CUDA_TESTS=1";
    ASSERT_EQ(TheCompiler().error(), "");
  }
};

constexpr const char* kArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100"};

std::string ReadSource(const std::string& path) {
  std::ifstream file(TENSORD_SOURCE_DIR "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The kernels of ptxas's report that spill. Those that call a hundred functions of double may save
// a register or two around a call.
std::vector<std::string> Spilling(const std::string& log) {
  static const std::regex kEntry("Compiling entry function '(\\w+)'"),
      kSpills("(\\d+) bytes spill stores, (\\d+) bytes spill loads");
  std::vector<std::string> names;
  std::string line, entry;
  std::istringstream lines(log);
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_search(line, match, kEntry)) entry = match[1];
    const bool calls = entry.starts_with("operations_") || entry.starts_with("special_functions_");
    if (std::regex_search(line, match, kSpills) &&
        std::stoi(match[1]) + std::stoi(match[2]) > (calls ? 16 : 0))
      names.push_back(entry + ": " + line);
  }
  return names;
}

// A part of cuda_program.cu on one architecture.
struct Part {
  std::string architecture, name;
  std::vector<std::string> options;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.architecture << " " << part.name; }

std::vector<Part> Parts() {
  const std::vector<std::string> floats = {"float", "tk::half", "tk::bfloat16", "tk::float8_e4m3fn",
                                           "tk::float8_e5m2"};
  std::vector<std::string> types = floats;
  for (const char* const type : {"double", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
                                 "uint32_t", "int64_t", "uint64_t", "bool"})
    types.push_back(type);
  std::vector<Part> parts;
  for (const std::string architecture : kArchitectures) {
    // All widths take long. These two have all code that depends on the architecture, which
    // formulas of numbers do not (ptx.cuh).
    const bool whole = architecture == "sm_90";
    const bool differs = whole || architecture == "sm_80";
    const char* const all_widths = "-DWIDTHS(F)=F(1) F(2) F(4) F(8)";
    const std::string widths = differs ? all_widths : "-DWIDTHS(F)=F(4)";
    const std::string of_formulas = whole ? all_widths : "-DWIDTHS(F)=F(4)";
    for (const std::string part :
         {"memory", "scatters", "arithmetic", "operations", "reductions"}) {
      for (const std::string& type : whole ? types : floats) {
        const std::string short_name = type.starts_with("tk::") ? type.substr(4) : type;
        const bool formulas = part == "arithmetic" || part == "operations";
        parts.push_back({architecture,
                         part + "_" + short_name,
                         {formulas ? of_formulas : widths, "-DPART=" + part, "-DTYPE=" + type}});
      }
    }
    if (architecture == "sm_86" || architecture == "sm_89") continue;  // as sm_80
    for (const std::string type : {"float", "double"}) {
      parts.push_back({architecture,
                       "special_functions_" + type,
                       {"-DWIDTHS(F)=F(2)", "-DPART=special_functions", "-DTYPE=" + type}});
    }
    for (const std::string part : {"softmax", "random"})
      parts.push_back({architecture, part, {widths, "-DPART=" + part}});
    parts.push_back({architecture, "groups", {"-DGROUPS"}});
    parts.push_back({architecture, "scans", {"-DSCANS"}});
  }
  return parts;
}

class CudaPreludeTest : public CudaTest, public testing::WithParamInterface<Part> {};

TEST_P(CudaPreludeTest, CompilesWithoutSpills) {
  static const std::string program = ReadSource("tests/unit/kernels/cuda_program.cu");
  static const std::string operations = ReadSource("compiler/loop_ir/ops.def");
  const Compiled compiled =
      TheCompiler().Compile(program, GetParam().architecture, GetParam().options,
                            {{"compiler/loop_ir/ops.def", operations}});
  ASSERT_EQ(compiled.error, "");
  EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << compiled.log;
  EXPECT_NE(compiled.log.find("spill stores"), std::string::npos) << "no report of ptxas";
  for (const std::string& spill : Spilling(compiled.log)) ADD_FAILURE() << spill;
  // But for CUDA's own table.
  EXPECT_FALSE(std::regex_search(compiled.ptx, std::regex("\n\\.global[^\n]* _Z")))
      << "a constant in the device's memory";
}

INSTANTIATE_TEST_SUITE_P(Parts, CudaPreludeTest, testing::ValuesIn(Parts()), [](const auto& info) {
  return info.param.architecture + "_" + info.param.name;
});

std::string CopyKernel(const std::string& type, int width, const std::string& load,
                       const std::string& store) {
  const std::string w = std::to_string(width), of = "<" + type + ", " + w + ">";
  return "#include \"tensord/cuda.cuh\"\n"
         "struct Args { void* b[2]; };\n"
         "extern \"C\" __global__ void copy(const __grid_constant__ Args args) {\n"
         "  const " +
         type + "* const p = static_cast<const " + type + "*>(args.b[0]);\n  " + type +
         "* const q = static_cast<" + type +
         "*>(args.b[1]);\n"
         "  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * " +
         w +
         ";\n"
         "  tk::" +
         store + of + "(q + i, tk::" + load + of + "(p + i));\n}\n";
}

int Count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return int(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

class CudaAccessTest : public CudaTest, public testing::WithParamInterface<const char*> {};

TEST_P(CudaAccessTest, VectorsMoveInAccessesOf16Bytes) {
  const struct {
    const char *load, *store, *load_cache, *store_cache;
  } kWays[] = {{"load", "store", "", ""},
               {"load_streaming", "store_streaming", "\\.cs", "\\.cs"},
               {"load_const", "store", "\\.nc", ""},
               {"load_evict_last", "store", "(\\.L1::evict_last\\.L2::cache_hint)?", ""}};
  const struct {
    const char* type;
    int width, accesses;
    const char* shape;
  } kCases[] = {
      {"float", 4, 1, "\\.v4\\.[usbf]32"},         {"float", 8, 2, "\\.v4\\.[usbf]32"},
      {"double", 2, 1, "\\.v2\\.[usbf]64"},        {"tk::half", 8, 1, "\\.v4\\.[usbf]32"},
      {"tk::bfloat16", 16, 2, "\\.v4\\.[usbf]32"}, {"tk::bfloat16", 4, 1, "\\.v2\\.[usbf]32"},
      {"uint8_t", 16, 1, "\\.v4\\.[usbf]32"},      {"bool", 4, 1, "\\.[usbf]32"},
      {"int64_t", 4, 2, "\\.v2\\.[usbf]64"},       {"tk::float8_e4m3fn", 2, 1, "\\.[usb]16"}};
  for (const auto& way : kWays) {
    for (const auto& c : kCases) {
      const Compiled compiled =
          TheCompiler().Compile(CopyKernel(c.type, c.width, way.load, way.store), GetParam(), {});
      ASSERT_EQ(compiled.error, "");
      const std::string load = std::string("ld\\.global") + way.load_cache + c.shape,
                        store = std::string("st\\.global") + way.store_cache + c.shape;
      EXPECT_EQ(Count(compiled.ptx, load), c.accesses) << c.type << c.width << compiled.ptx;
      EXPECT_EQ(Count(compiled.ptx, store), c.accesses) << c.type << c.width << compiled.ptx;
      EXPECT_EQ(Count(compiled.ptx, "(ld|st)\\.global"), 2 * c.accesses) << c.type << c.width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaAccessTest, testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
