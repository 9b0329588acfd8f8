// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/jit.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "compiler/jit/folder.h"
#include "compiler/jit/seal.h"
#include "kernels/embedded.h"
#include "tensord/kernel_abi.h"

namespace tensord::jit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// y[i] = tanh(x[i]) * factor.
std::string Source(const std::string& function, float factor) {
  return absl::StrCat(R"(#include "tensord/cpu.h"
using namespace tk;
extern "C" __attribute__((visibility("default"))) void )",
                      function, R"((const TensordKernelArgs* args) {
  const float* x = static_cast<const float*>(args->buffers[0]);
  float* y = static_cast<float*>(args->buffers[1]);
  const int64_t n = args->integers[0];
  for (int64_t i = 0; i < n; i += kLanes) {
    const auto v = tanh(load_tail<float, kLanes>(x + i, n - i < kLanes ? n - i : kLanes));
    store_tail(y + i, v * broadcast<kLanes>(float()",
                      factor, R"()), n - i < kLanes ? n - i : kLanes);
  }
}
)");
}

v1::Isa BestIsa() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return v1::ISA_AVX512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? v1::ISA_AVX2
                                                                         : v1::ISA_SCALAR;
}

class JitTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/tensord-jit-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    config_.work_folder = path;
    config_.seal_key = "the store's";
    job_.mutable_target()->mutable_cpu()->set_isa(BestIsa());
  }
  void TearDown() override { fs::remove_all(config_.work_folder); }

  void AddUnit(const std::string& source, const std::string& description = "unit") {
    v1::KernelUnit* unit = job_.add_units();
    unit->set_source(source);
    unit->set_description(description);
  }
  // Only preludes stay in the work folder.
  void ExpectNoTemporaryFiles() {
    for (const auto& entry : fs::directory_iterator(config_.work_folder))
      EXPECT_THAT(std::string(entry.path().filename()), testing::StartsWith("prelude-"));
  }
  float Run(const std::string& binary, const char* function, float x) {
    const std::string path = absl::StrCat(config_.work_folder, "/run-", count_++, ".so");
    std::ofstream(path, std::ios::binary) << binary;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    fs::remove(path);
    if (!library) return NAN;
    auto kernel = reinterpret_cast<TensordKernelFn>(dlsym(library, function));
    EXPECT_NE(kernel, nullptr);
    std::vector<float> in(37, x), out(37);
    void* buffers[] = {in.data(), out.data()};
    const int64_t n = int64_t(in.size());
    const TensordKernelArgs args = {buffers, &n, nullptr, nullptr};
    kernel(&args);
    for (float y : out) EXPECT_EQ(y, out[0]);
    dlclose(library);
    return out[0];
  }

  JitConfig config_;
  v1::JitJob job_;
  int count_ = 0;
};

TEST_F(JitTest, CompiledKernelRuns) {
  AddUnit(Source("kernel", 2));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->binaries_size(), 1);
  EXPECT_NEAR(Run(result->binaries(0), "kernel", 0.5f), 2 * std::tanh(0.5f), 1e-6);
  EXPECT_EQ(result->stages_size(), 2);
  ExpectNoTemporaryFiles();
}

TEST_F(JitTest, EachUnitHasItsTime) {
  for (int i = 1; i <= 4; ++i) AddUnit(Source("kernel", i));
  config_.parallelism = 2;
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, uint64_t> busy_until;  // by thread
  int units = 0;
  uint64_t begin = 0, end = 0;
  for (const v1::Span& span : result->spans()) {
    if (span.name() == "jit/compile") {
      begin = span.start_nanoseconds();
      end = begin + span.nanoseconds();
    }
  }
  for (const v1::Span& span : result->spans()) {
    if (span.name() != "jit/kernel") continue;
    ++units;
    EXPECT_GE(span.start_nanoseconds(), std::max(begin, busy_until[span.track()]));
    busy_until[span.track()] = span.start_nanoseconds() + span.nanoseconds();
    EXPECT_LE(busy_until[span.track()], end);
    EXPECT_GT(span.nanoseconds(), 1'000'000u);  // a compiler ran
  }
  EXPECT_EQ(units, 4);
  EXPECT_LE(busy_until.size(), 2u);
}

TEST_F(JitTest, EveryIsaCompiles) {
  AddUnit(Source("kernel", 2));
  for (v1::Isa isa : {v1::ISA_SCALAR, v1::ISA_AVX2, v1::ISA_AVX512}) {
    job_.mutable_target()->mutable_cpu()->set_isa(isa);
    const auto result = Jit(job_, config_);
    ASSERT_TRUE(result.ok()) << result.status();
    if (isa <= BestIsa()) {
      EXPECT_NEAR(Run(result->binaries(0), "kernel", -0.5f), -2 * std::tanh(0.5f), 1e-6);
    }
  }
}

TEST_F(JitTest, SameSourceGivesSameBytes) {
  AddUnit(Source("kernel", 3));
  const auto first = Jit(job_, config_), second = Jit(job_, config_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->binaries(0), second->binaries(0));
  JitConfig elsewhere = config_;
  elsewhere.work_folder += "/elsewhere";
  const auto third = Jit(job_, elsewhere);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(first->binaries(0), third->binaries(0));
}

// A precompiled header that does not fit is ignored with a warning only.
TEST_F(JitTest, PrecompiledPreludeIsUsed) {
  config_.extra_flags = {"-Winvalid-pch", "-Werror"};
  AddUnit(absl::StrCat(Source("kernel", 2), "\n"));
  ASSERT_TRUE(Jit(job_, config_).ok());
  // Without the headers behind it, the precompiled one alone must do.
  for (const auto& entry : fs::directory_iterator(config_.work_folder)) {
    fs::remove_all(entry.path() / "tensord" / "cpu");
    ASSERT_TRUE(Seal(entry.path(), config_.seal_key).ok());
  }
  const auto result = Jit(job_, config_);
  EXPECT_TRUE(result.ok()) << result.status();
  for (const auto& entry : fs::directory_iterator(config_.work_folder))
    EXPECT_FALSE(fs::exists(entry.path() / "tensord" / "cpu"));
}

// A header with another constant, no usable precompiled one, and bits that a disk turned, between
// two jobs of one process: the kernel is that of the prelude that the compiler was built with.
TEST_F(JitTest, ChangedPreludeIsMadeAnew) {
  AddUnit(Source("kernel", 3));
  const auto first = Jit(job_, config_);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string prelude = fs::directory_iterator(config_.work_folder)->path();
  const std::string header = prelude + "/tensord/cpu/math_float.h",
                    precompiled = prelude + "/tensord/cpu.h.gch";
  const auto turn_a_bit = [](const std::string& path, double where) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = std::streamoff(double(fs::file_size(path) - 1) * where);
    char byte = char(file.seekg(at).get());
    file.seekp(at).put(char(byte ^ 1));
  };
  const std::string whole = *ReadFile(header);
  const std::vector<std::function<void()>> damages = {
      [&] {
        std::string changed = whole;
        const size_t digit = changed.find("0.");
        ASSERT_NE(digit, std::string::npos);
        changed[digit] = '9';
        ASSERT_TRUE(WriteFile(header, changed).ok());
        fs::remove(precompiled);
      },
      [&] { ASSERT_TRUE(WriteFile(precompiled, "no precompiled header").ok()); },
      [&] { turn_a_bit(precompiled, 0.3); },
      [&] { turn_a_bit(precompiled, 0.9); },
      [&] { turn_a_bit(prelude + "/seal", 0.5); },
      [&] { ASSERT_TRUE(WriteFile(prelude + "/tensord/cpu/math.h", whole).ok()); },
      [&] { ASSERT_TRUE(WriteFile(prelude + "/more.h", "").ok()); },
      [&] { fs::remove_all(prelude + "/tensord/special"); }};
  for (const auto& damage : damages) {
    damage();
    EXPECT_FALSE(IsSealed(prelude, config_.seal_key));
    const auto result = Jit(job_, config_);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->binaries(0), first->binaries(0));
    EXPECT_TRUE(IsSealed(prelude, config_.seal_key));
  }
  EXPECT_EQ(*ReadFile(header), whole);
  ExpectNoTemporaryFiles();
}

TEST_F(JitTest, SealOfAnotherKeyIsNone) {
  AddUnit(Source("kernel", 3));
  ASSERT_TRUE(Jit(job_, config_).ok());
  const std::string prelude = fs::directory_iterator(config_.work_folder)->path();
  EXPECT_FALSE(IsSealed(prelude, "another"));
  ASSERT_TRUE(Seal(prelude, "another").ok());
  EXPECT_FALSE(IsSealed(prelude, config_.seal_key));
}

TEST_F(JitTest, ManyUnitsInParallelKeepTheirOrder) {
  config_.parallelism = 4;
  for (int i = 1; i <= 9; ++i) AddUnit(Source(absl::StrCat("kernel", i), float(i)));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->binaries_size(), 9);
  for (int i = 1; i <= 9; ++i) {
    EXPECT_NEAR(Run(result->binaries(i - 1), absl::StrCat("kernel", i).c_str(), 1),
                i * std::tanh(1.0f), 1e-5);
  }
  ExpectNoTemporaryFiles();
}

TEST_F(JitTest, RacingJobsShareOnePrelude) {
  AddUnit(Source("kernel", 2));
  std::vector<absl::StatusOr<v1::JitResult>> results(4, absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = Jit(job_, config_); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(std::distance(fs::directory_iterator(config_.work_folder), {}), 1);
}

TEST_F(JitTest, FailingUnitIsToldWithItsCommand) {
  AddUnit(Source("kernel", 2));
  AddUnit("#include \"tensord/cpu.h\"\nint x = no_such_name;\n", "softmax of nothing");
  AddUnit(Source("kernel", 3));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->failures_size(), 1);
  EXPECT_EQ(result->failures(0).unit(), 1u);
  for (const char* part : {"softmax of nothing", "no_such_name", "-shared", "kernel.cc:2"})
    EXPECT_THAT(result->failures(0).log(), HasSubstr(part));
  ASSERT_EQ(result->binaries_size(), 3);
  EXPECT_EQ(result->binaries(1), "");
  EXPECT_NEAR(Run(result->binaries(2), "kernel", 1), 3 * std::tanh(1.0f), 1e-5);
  ExpectNoTemporaryFiles();
}

TEST_F(JitTest, OutputIsCutToItsEnd) {
  std::string source;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&source, "no_such_type", i, " x", i, ";\n");
  AddUnit(source);
  const auto result = Jit(job_, config_);
  ASSERT_EQ(result->failures_size(), 1);
  const std::string message(result->failures(0).log());
  EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 42);
  EXPECT_THAT(message, HasSubstr("x199"));
}

TEST_F(JitTest, MissingCompilerSaysWhatToDo) {
  AddUnit(Source("kernel", 2));
  for (const char* cxx : {"no-such-compiler", "/no/such/compiler", "", "/tmp"}) {
    config_.cxx = cxx;
    const auto result = Jit(job_, config_);
    EXPECT_EQ(result.status(), absl::FailedPreconditionError(absl::StrCat(
                                   "no C++ compiler '", cxx, "': install g++ or set TENSORD_CXX")));
  }
}

class FakeCompiler : public JitTest {
 protected:
  void Make(const std::string& body) {
    const std::string path = config_.work_folder + "/fake-c++";
    fs::remove(path);
    std::ofstream(path) << "#!/bin/sh\n" << body;
    chmod(path.c_str(), 0755);
    config_.cxx = path;
  }
};

TEST_F(FakeCompiler, OldOrForeignCompilerIsRefused) {
  AddUnit(Source("kernel", 2));
  for (const char* version :
       {"c++ (Debian) 10.2.1 20210110", "Debian clang version 14.0.6", "cc"}) {
    Make(absl::StrCat("echo '", version, "'\n"));
    const auto result = Jit(job_, config_);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("GCC 12 or later"));
  }
}

TEST_F(FakeCompiler, ToolchainIdFollowsTheCompilerFile) {
  Make("echo 'c++ (One) 12.1.0'\n");
  const auto one = FindToolchain(job_.target(), config_);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(fs::equivalent(one->file, config_.cxx)) << one->file;
  EXPECT_THAT(one->id, HasSubstr("(One) 12.1.0"));
  Make("echo 'c++ (Another) 13.1.0'\n");
  const auto another = FindToolchain(job_.target(), config_);
  ASSERT_TRUE(another.ok()) << another.status();
  EXPECT_THAT(another->id, HasSubstr("(Another) 13.1.0"));
}

TEST_F(FakeCompiler, SignalIsReported) {
  AddUnit(Source("kernel", 2));
  Make("case $1 in --version) echo 'c++ (x) 12.1.0';; *) kill -SEGV $$;; esac\n");
  const auto result = Jit(job_, config_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("exit 139"));
}

TEST_F(JitTest, ToolchainIdNamesWhatMatters) {
  const auto id = [](const v1::Target& target, const JitConfig& config) {
    return FindToolchain(target, config)->id;
  };
  const std::string usual = id(job_.target(), config_);
  EXPECT_THAT(usual, HasSubstr(std::string(kernels::CpuPreludeDigest())));
  EXPECT_THAT(usual, HasSubstr("-ffp-contract=fast"));
  EXPECT_THAT(usual, testing::Not(HasSubstr("-ffast-math")));

  JitConfig flags = config_;
  flags.extra_flags = {"-g"};
  EXPECT_NE(id(job_.target(), flags), usual);
  JitConfig folder = config_;
  folder.work_folder = "/elsewhere";
  folder.parallelism = 9;
  EXPECT_EQ(id(job_.target(), folder), usual);
  v1::Target other;
  other.mutable_cpu()->set_isa(v1::ISA_SCALAR);
  EXPECT_NE(id(other, config_), usual);
}

TEST_F(JitTest, OtherTargetsAreRefused) {
  v1::Target target;
  EXPECT_EQ(FindToolchain(target, config_).status().code(), absl::StatusCode::kUnimplemented);
  target.mutable_cpu();
  EXPECT_EQ(FindToolchain(target, config_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JitTest, ToolchainsAreListed) {
  config_.cxx = "no-such-compiler";
  const v1::ToolchainList list = ListToolchains(config_);
  ASSERT_EQ(list.toolchains_size(), 2);
  EXPECT_EQ(list.toolchains(0).name(), "C++ compiler");
  EXPECT_EQ(list.toolchains(0).found(), "");
  EXPECT_THAT(list.toolchains(0).problem(), HasSubstr("install g++"));
  EXPECT_EQ(list.toolchains(1).name(), "NVRTC");
}

TEST_F(JitTest, FoldersOfDeadProcessesAreSwept) {
  const std::string stale = config_.work_folder + "/tmp-2147483600-abcdef";
  fs::create_directories(stale + "/inside");
  AddUnit(Source("kernel", 2));
  ASSERT_TRUE(Jit(job_, config_).ok());
  EXPECT_FALSE(fs::exists(stale));
}

TEST_F(JitTest, FilesAreMadeElsewhereWhereTheWorkFolderHasNoRoom) {
  EXPECT_EQ(WorkFolder(config_), config_.work_folder);
  JitConfig full = config_;
  full.work_folder = "/nonexistent";  // of which no disk says that it has room
  EXPECT_EQ(WorkFolder(full), "/nonexistent");
  full.spare_folder = config_.work_folder;
  EXPECT_EQ(WorkFolder(full), config_.work_folder);
}

}  // namespace
}  // namespace tensord::jit
