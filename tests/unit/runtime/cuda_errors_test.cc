// SPDX-License-Identifier: Apache-2.0
// CUDA programs that cannot be loaded or that fail.
#include <sys/wait.h>

#include "tests/unit/runtime/cuda_fixture.h"

namespace tensord::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(RuntimeCuda, AnErrorNamesTheKernelAndItsOperators) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  Driver().failures["cuLaunchKernelEx"] = 700;
  EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OPERATOR);
  EXPECT_STREQ(tensord_last_error(),
               "in or before kernel 'add' (from add_3, gelu): CUDA_ERROR_ILLEGAL_ADDRESS (what the "
               "driver says)");
  Driver().failures.clear();
  EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OK);
}

TEST_F(RuntimeCuda, WhatCannotBeLoadedFailsBeforeAnyStep) {
  const v1::Artifact artifact = Parse(Plan());
  struct Case {
    const char* function;
    int result;
    int code;
    const char* message;
  };
  for (const Case& failure : {
           Case{"cuLibraryLoadData", 222, TENSORD_UNAVAILABLE, "update the driver"},
           Case{"cuLibraryLoadData", 209, TENSORD_CORRUPT, "another GPU"},
           Case{"cuKernelGetFunction", 209, TENSORD_CORRUPT, "another GPU"},
           Case{"cuLibraryLoadData", 2, TENSORD_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
           Case{"cuLibraryLoadData", 3, TENSORD_OPERATOR, "'spawn'"},
           Case{"cuFuncSetAttribute", 1, TENSORD_CORRUPT, "100000 bytes of shared memory"},
       }) {
    TensordProgram* program = Load(artifact);
    Driver().failures = {{failure.function, failure.result}};
    EXPECT_EQ(Run(program, {x_, y_}), failure.code) << failure.function;
    EXPECT_THAT(tensord_last_error(), HasSubstr(failure.message));
    EXPECT_THAT(Driver().launches, SizeIs(0));
    // What failed is tried again.
    Driver().failures.clear();
    EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
    Driver().launches.clear();
    Driver().shared_limits.clear();
  }
  EXPECT_EQ(Run(Load(artifact, "add 4\n"), {x_, y_}), TENSORD_CORRUPT);
  EXPECT_THAT(tensord_last_error(), HasSubstr("cannot find kernel 'twice'"));
  EXPECT_EQ(Run(Load(artifact, "add 4\ntwice 5\n"), {x_, y_}), TENSORD_CORRUPT);
  EXPECT_THAT(tensord_last_error(), HasSubstr("takes 40 bytes of arguments, the plan passes 32"));
}

TEST_F(RuntimeCuda, OutOfMemoryHasACodeOfItsOwnAndLeavesNothing) {
  TensordProgram* program = Load(Parse(Plan()));
  for (int number : {1, 2}) {
    Fake().fail_allocation = number;
    EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OUT_OF_MEMORY);
    EXPECT_THAT(tensord_last_error(), HasSubstr("CUDA out of memory"));
    EXPECT_EQ(Fake().live_tensors, 2);
    EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  }
  // An allocation that fails because a kernel did is not for want of memory.
  Fake().fail_allocation = 1;
  Driver().failures["cuStreamQuery"] = 700;
  EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OPERATOR);
}

TEST_F(RuntimeCuda, DamagedLaunchesAreRefused) {
  const std::vector<std::pair<const char*, std::function<void(v1::Artifact&)>>> damages = {
      {"neither a cubin nor PTX",
       [](v1::Artifact& a) { a.mutable_modules(0)->set_kind(v1::Module::SHARED_OBJECT); }},
      {"no launch of a CUDA kernel",
       [](v1::Artifact& a) { a.mutable_steps(0)->mutable_launch()->clear_cuda(); }},
      {"block or its shared memory",
       [](v1::Artifact& a) {
         a.mutable_steps(0)->mutable_launch()->mutable_cuda()->set_block(2048);
       }},
      {"block or its shared memory",
       [](v1::Artifact& a) {
         a.mutable_steps(0)->mutable_launch()->mutable_cuda()->set_shared_bytes(1u << 30);
       }},
      {"takes a tensor on another device",
       [](v1::Artifact& a) {
         for (v1::TensorMeta* meta :
              {a.mutable_inputs(0)->mutable_tensor(), a.mutable_buffers(0)->mutable_meta()}) {
           meta->set_device(v1::DEVICE_TYPE_CPU);
         }
       }},
      {"workspace of another device",
       [](v1::Artifact& a) {
         a.mutable_buffers(2)->mutable_meta()->set_device(v1::DEVICE_TYPE_CPU);
       }},
  };
  for (const auto& [message, damage] : damages) {
    v1::Artifact artifact = Parse(Plan());
    damage(artifact);
    Load(artifact, kImage, TENSORD_CORRUPT);
    EXPECT_THAT(tensord_last_error(), HasSubstr(message));
  }
}

TEST_F(RuntimeCuda, ABadBlobIsFoundAtLoad) {
  v1::Artifact artifact = Parse(Plan());
  Load(artifact);
  artifact.mutable_modules(0)->set_sha256(Sha256("nothing"));
  const std::string bytes = artifact.SerializeAsString();
  TensordProgram* program = nullptr;
  EXPECT_EQ(tensord_program_load(bytes.data(), bytes.size(), folder_.c_str(), &program),
            TENSORD_UNAVAILABLE);
  EXPECT_THAT(tensord_last_error(), HasSubstr("cannot open blob"));
}

TEST_F(RuntimeCuda, AForkedChildSaysSoAndDoesNotHang) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  const pid_t child = fork();
  if (child == 0) {
    const int code = Run(program, {x_, y_});
    _exit(code == TENSORD_OPERATOR &&
                  std::string(tensord_last_error()).find("'spawn'") != std::string::npos
              ? 7
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OK);
}

// A driver that was once opened stays, so these run in processes of their own.
class RuntimeCudaDriver : public RuntimeCuda {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    RuntimeCuda::SetUp();
  }
  void ExpectFirstCall(int code, const char* message) {
    TensordProgram* program = Load(Parse(Plan()));
    const int got = Run(program, {x_, y_});
    if (got != code || std::string(tensord_last_error()).find(message) == std::string::npos) {
      std::fprintf(stderr, "got %d: %s\n", got, tensord_last_error());
      _exit(1);
    }
    _exit(0);
  }
};

TEST_F(RuntimeCudaDriver, Missing) {
  EXPECT_EXIT(
      {
        setenv("TENSORD_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
        ExpectFirstCall(TENSORD_UNAVAILABLE, "install the NVIDIA driver");
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(RuntimeCudaDriver, TooOld) {
  EXPECT_EXIT(
      {
        Driver().version = 11080;
        ExpectFirstCall(TENSORD_UNAVAILABLE, "version 11.8: tensord needs 12.0");
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(RuntimeCudaDriver, NoDevice) {
  EXPECT_EXIT(
      {
        Driver().failures["cuInit"] = 100;
        ExpectFirstCall(TENSORD_UNAVAILABLE, "no GPU is visible");
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensord::runtime
