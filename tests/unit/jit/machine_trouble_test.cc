// SPDX-License-Identifier: Apache-2.0
// What a compiler meets that is no fault of its source: no unit fails of it, for the program would
// be stored with library calls in the kernel's place.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/jit/folder.h"
#include "compiler/jit/jit.h"

namespace tensord::jit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MachineTroubleTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/tensord-trouble-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    config_.work_folder = root_ + "/work";
    config_.seal_key = "the store's";
    fs::create_directory(config_.work_folder);
    job_.mutable_target()->mutable_cpu()->set_isa(v1::ISA_SCALAR);
    for (const char* source : {"a good one", "a marked one"}) {
      job_.add_units()->set_source(source);
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  // A compiler that runs `body` in the folder of a kernel, `kernel.cc`, before it makes it.
  void Make(const std::string& body) {
    config_.cxx = root_ + "/fake-c++";
    std::ofstream(config_.cxx) << "#!/bin/sh\ncase \"$*\" in\n"
                               << "*--version*) echo 'c++ (x) 12.1.0';;\n"
                               << "*c++-header*) echo header >tensord/cpu.h.gch;;\n"
                               << "*) " << body << "\necho binary >kernel.so;;\nesac\n";
    chmod(config_.cxx.c_str(), 0755);
  }
  std::string Mark(const char* name) const { return absl::StrCat(root_, "/", name); }

  std::string root_;
  JitConfig config_;
  v1::JitJob job_;
};

class Words : public MachineTroubleTest, public testing::WithParamInterface<const char*> {};

TEST_P(Words, AreNoFaultOfTheUnit) {
  Make(absl::StrCat("if grep -q marked kernel.cc; then echo '", GetParam(), "' >&2; exit 1; fi"));
  const auto result = Jit(job_, config_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(GetParam()));
}

// As GCC 12, its assembler and linker say it.
INSTANTIATE_TEST_SUITE_P(
    OfCompilers, Words,
    testing::Values("cc1plus: fatal error: error writing to /w/cc.s: No space left on device",
                    "kernel.cc:1: fatal error: tensord/cpu.h: Too many open files",
                    "as: BFD error: kernel.o: Disk quota exceeded",
                    "/usr/bin/ld: final link failed: Input/output error",
                    "c++: fatal error: cannot execute as: vfork: Cannot allocate memory",
                    "c++: fatal error: cannot fork: Resource temporarily unavailable"));

TEST_F(MachineTroubleTest, OtherWordsAre) {
  for (const char* words : {"kernel.cc:1: error: 'x' was not declared in this scope",
                            "cc1plus: out of memory allocating 65536 bytes"}) {
    Make(absl::StrCat("if grep -q marked kernel.cc; then echo \"", words, "\" >&2; exit 1; fi"));
    const auto result = Jit(job_, config_);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->failures_size(), 1);
    EXPECT_THAT(result->failures(0).log(), HasSubstr(words));
  }
}

TEST_F(MachineTroubleTest, WhereTheWorkFolderTakesNothingTheSpareOneServes) {
  config_.spare_folder = root_ + "/spare";
  Make("case $PWD in *work*) echo 'ld: final link failed: Disk quota exceeded' >&2; exit 1;; esac");
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failures_size(), 0);
  EXPECT_EQ(result->binaries(1), "binary\n");
}

TEST_F(MachineTroubleTest, WhoWasKilledOnceTriesAgain) {
  const std::string killed = Mark("killed");
  Make(absl::StrCat("if ! [ -e ", killed, " ]; then touch ", killed,
                    "; echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; "
                    "exit 1; fi"));
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failures_size(), 0);
  EXPECT_TRUE(fs::exists(killed));
}

TEST_F(MachineTroubleTest, WhoIsAlwaysKilledIsAFailure) {
  Make("if grep -q marked kernel.cc; then kill -KILL $$; fi");
  const auto result = Jit(job_, config_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->failures_size(), 1);
  EXPECT_THAT(result->failures(0).log(), HasSubstr("exit 137"));
}

// A binary of which the disk gives only a part is none.
TEST_F(MachineTroubleTest, WhatCannotBeReadIsNoEmptyFile) {
  EXPECT_FALSE(ReadFile(root_).ok());  // opens, and reading fails
  EXPECT_FALSE(ReadFile(Mark("nothing")).ok());
  ASSERT_TRUE(WriteFile(Mark("empty"), "").ok());
  EXPECT_EQ(ReadFile(Mark("empty")).value_or("?"), "");
  const std::string large(300'000, 'x');
  ASSERT_TRUE(WriteFile(Mark("large"), large).ok());
  EXPECT_EQ(ReadFile(Mark("large")).value_or(""), large);
}

}  // namespace
}  // namespace tensord::jit
