// SPDX-License-Identifier: Apache-2.0
// Needs NVRTC but no GPU: TENSORD_NVRTC says where it is (tests/run.sh sets it).
// TENSORD_NO_CUDA_TESTS=1 skips what needs it.
#include <absl/strings/str_cat.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>

#include "compiler/jit/jit.h"
#include "compiler/jit/nvrtc/pch.h"
#include "compiler/jit/nvrtc/ptxas_log.h"
#include "kernels/embedded.h"
#include "tests/unit/testing/cuda_tests.h"

namespace tensord::jit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Source(int factor) {
  return absl::StrCat(R"(#include "tensord/cuda.cuh"
struct Args { void* b[2]; int64_t n[1]; };
extern "C" __global__ void __launch_bounds__(256)
tensord_kernel(const __grid_constant__ Args args) {
  __shared__ float tile[256];
  const float* x = static_cast<const float*>(args.b[0]);
  float* y = static_cast<float*>(args.b[1]);
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= args.n[0]) return;
  tile[threadIdx.x] = tanhf(x[i]);
  __syncwarp();
  y[i] = tile[threadIdx.x ^ 1] * )",
                      factor, ";\n}\n");
}

// The architecture that a cubin says it is for: ELF flags of the two forms that NVRTC 12 and 13
// write.
int ArchitectureOf(const std::string& cubin) {
  Elf64_Ehdr header;
  if (cubin.size() < sizeof header) return 0;
  memcpy(&header, cubin.data(), sizeof header);
  constexpr int kCuda = 190;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kCuda) return 0;
  const int low = header.e_flags & 0xff, second = (header.e_flags >> 8) & 0xff;
  return header.e_ident[EI_ABIVERSION] >= 8 ? second : low;
}

class JitNvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tensord::testing::CudaTestsAreOff()) GTEST_SKIP() << "TENSORD_NO_CUDA_TESTS=1";
    const char* nvrtc = getenv("TENSORD_NVRTC");
    ASSERT_NE(nvrtc, nullptr) << "set TENSORD_NVRTC to NVRTC's folder";
    config_.nvrtc = nvrtc;
    config_.work_folder = ::testing::TempDir() + "/tensord-jit-nvrtc";
    fs::create_directories(config_.work_folder);
    job_.mutable_target()->mutable_cuda()->set_sm(90);
  }
  void TearDown() override { fs::remove_all(config_.work_folder); }

  void AddUnit(const std::string& source, const std::string& description = "unit") {
    v1::KernelUnit* unit = job_.add_units();
    unit->set_source(source);
    unit->set_description(description);
  }

  JitConfig config_;
  v1::JitJob job_;
};

TEST_F(JitNvrtcTest, EveryArchitectureGivesItsCubin) {
  AddUnit(Source(2));
  for (uint32_t sm : {80, 86, 89, 90, 100}) {
    job_.mutable_target()->mutable_cuda()->set_sm(sm);
    const auto result = Jit(job_, config_);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->failures_size(), 0) << result->failures(0).log();
    EXPECT_EQ(result->kind(), v1::Module::CUBIN);
    EXPECT_EQ(ArchitectureOf(result->binaries(0)), int(sm));
    EXPECT_THAT(result->binaries(0), HasSubstr("tensord_kernel"));
  }
}

TEST_F(JitNvrtcTest, UnknownArchitectureGivesPtxOfTheOneBefore) {
  AddUnit(Source(2));
  job_.mutable_target()->mutable_cuda()->set_sm(99);
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->kind(), v1::Module::PTX);
  EXPECT_THAT(result->binaries(0), HasSubstr(".target sm_90"));
  EXPECT_NE(result->binaries(0).back(), '\0');

  job_.mutable_target()->mutable_cuda()->set_sm(20);
  EXPECT_EQ(Jit(job_, config_).status().code(), absl::StatusCode::kFailedPrecondition);
  job_.mutable_target()->mutable_cuda()->set_sm(0);
  EXPECT_EQ(Jit(job_, config_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JitNvrtcTest, FailingUnitLeavesTheOthersAlone) {
  config_.parallelism = 2;
  AddUnit(Source(2));
  AddUnit("#include \"tensord/cuda.cuh\"\n__global__ void f() { no_such_name(); }\n", "bad one");
  AddUnit(Source(3));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->binaries_size(), 3);
  ASSERT_EQ(result->failures_size(), 1);
  EXPECT_EQ(result->failures(0).unit(), 1u);
  for (const char* part : {"bad one", "no_such_name", "kernel.cu(2)", "sm_90", "COMPILATION"})
    EXPECT_THAT(result->failures(0).log(), HasSubstr(part));
  EXPECT_EQ(result->binaries(1), "");
  EXPECT_EQ(ArchitectureOf(result->binaries(0)), 90);
  EXPECT_EQ(ArchitectureOf(result->binaries(2)), 90);
}

TEST_F(JitNvrtcTest, SameSourceGivesSameBytes) {
  AddUnit(Source(2));
  const auto first = Jit(job_, config_);
  AddUnit(Source(3));
  const auto second = Jit(job_, config_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->binaries(0), second->binaries(0));
}

// After a few units a precompiled prelude is made and used, which changes no byte.
TEST_F(JitNvrtcTest, PrecompiledPreludeGivesTheSameBytes) {
  config_.parallelism = 2;
  job_.mutable_target()->mutable_cuda()->set_sm(86);
  for (int i = 0; i < 2 * kUnitsBeforePch + 2; ++i) AddUnit(Source(i % 2));
  AddUnit("#include \"tensord/cuda.cuh\"\n#error on purpose\n");
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 2; i < result->binaries_size() - 1; ++i)
    EXPECT_EQ(result->binaries(i), result->binaries(i % 2)) << i;
  ASSERT_EQ(result->failures_size(), 1);
  EXPECT_THAT(result->failures(0).log(), HasSubstr("on purpose"));
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(config_.work_folder))
    files += entry.path().filename() == "prelude.pch";
  EXPECT_EQ(files, 1);
  // Gone from the disk: done without.
  fs::remove_all(config_.work_folder);
  const auto without = Jit(job_, config_);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->binaries(0), result->binaries(0));
}

TEST_F(JitNvrtcTest, KernelsOfSpecialFunctionsUseThePrecompiledPreludeToo) {
  job_.mutable_target()->mutable_cuda()->set_sm(89);
  constexpr std::string_view kMore = "#include \"tensord/cuda/lift_special.cuh\"\n";
  std::string source = Source(2);
  source.insert(source.find('\n') + 1, kMore);
  source.replace(source.find("tanhf(x[i])"), 11, "tk::scalar::igamma(x[i], 2.0f)");
  for (int i = 0; i < 2 * kUnitsBeforePch + 2; ++i) AddUnit(source);
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failures_size(), 0);
  for (const std::string& binary : result->binaries()) EXPECT_EQ(binary, result->binaries(0));
}

TEST_F(JitNvrtcTest, ResourcesAreTold) {
  AddUnit(Source(2));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->resources_size(), 1);
  EXPECT_GT(result->resources(0).registers(), 4u);
  EXPECT_LE(result->resources(0).registers(), 255u);
  EXPECT_GE(result->resources(0).shared_bytes(), 1024u);
  EXPECT_EQ(result->resources(0).spill_bytes(), 0u);
}

TEST_F(JitNvrtcTest, ToolchainIdNamesWhatMatters) {
  const auto info = FindToolchain(job_.target(), config_);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->id, HasSubstr(std::string(kernels::CudaPreludeDigest())));
  EXPECT_THAT(info->id, HasSubstr("sm_90"));
  EXPECT_THAT(info->id, ::testing::Not(HasSubstr("/")));  // no path
  EXPECT_TRUE(fs::exists(info->file)) << info->file;
  v1::Target other = job_.target();
  other.mutable_cuda()->set_multiprocessors(7);
  EXPECT_EQ(FindToolchain(other, config_)->id, info->id);
  other.mutable_cuda()->set_sm(80);
  EXPECT_NE(FindToolchain(other, config_)->id, info->id);
}

TEST_F(JitNvrtcTest, LibraryOrFolderMayBeGiven) {
  const std::string file = FindToolchain(job_.target(), config_)->file;
  for (const fs::path& path : {fs::path(file), fs::path(file).parent_path()}) {
    config_.nvrtc = path;
    EXPECT_TRUE(FindToolchain(job_.target(), config_).ok()) << path;
  }
}

// What follows needs no NVRTC.

TEST(JitNvrtcProblemTest, MissingLibrarySaysWhatToDo) {
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  JitConfig config;
  for (const char* place : {"/no/such/folder", "/tmp", "/no/such/libnvrtc.so.13"}) {
    config.nvrtc = place;
    const absl::Status status = FindToolchain(target, config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(HasSubstr(place), HasSubstr("TENSORD_NVRTC"),
                                 HasSubstr("pip install nvidia-cuda-nvrtc")));
  }
}

TEST(JitNvrtcProblemTest, OldLibraryIsRefused) {
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  JitConfig config;
  config.nvrtc = FAKE_NVRTC;
  const absl::Status status = FindToolchain(target, config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"11.8", "12.4 or later", FAKE_NVRTC})
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(JitNvrtcProblemTest, FileThatIsNoLibraryIsRefused) {
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  JitConfig config;
  config.nvrtc = ::testing::TempDir() + "/tensord-no-library.so";
  std::ofstream(config.nvrtc) << "text";
  const absl::Status status = FindToolchain(target, config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be used"));
  fs::remove(config.nvrtc);
}

TEST(PtxasLogTest, SeveralKernels) {
  const v1::UnitResources resources = ParsePtxasLog(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 128 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, 4096 bytes smem
)");
  EXPECT_EQ(resources.registers(), 255u);
  EXPECT_EQ(resources.spill_bytes(), 24u);
  EXPECT_EQ(resources.shared_bytes(), 4096u);
  EXPECT_EQ(ParsePtxasLog("").registers(), 0u);
}

}  // namespace
}  // namespace tensord::jit
