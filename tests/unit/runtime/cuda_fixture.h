// SPDX-License-Identifier: Apache-2.0
// A fixture for tests of CUDA programs, on a fake driver and a fake torch.
#ifndef TENSORD_TESTS_UNIT_RUNTIME_CUDA_FIXTURE_H_
#define TENSORD_TESTS_UNIT_RUNTIME_CUDA_FIXTURE_H_

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "tensord/runtime.h"
#include "tensord/v1/artifact.pb.h"
#include "tests/unit/runtime/fake_libcuda.h"
#include "tests/unit/runtime/fake_torch.h"

namespace tensord::runtime {

using testing::Data;
using testing::Fake;
using testing::FakeTorch;
using testing::kCpu;
using testing::kCuda;
using testing::NewFake;

inline constexpr int64_t kCount = 8;

// float32[8] on CUDA, or what `more` makes of it.
inline std::string Meta(const std::string& device = "CUDA") {
  return "dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_" + device +
         " sizes { constant: 8 } strides { constant: 1 } storage_offset { constant: 0 } ";
}

// How a plan begins that takes x and y, its buffers 0 and 1.
inline std::string TwoInputs() {
  return R"(
    format_version: 6
    target { cuda { sm: 90 } }
    modules { kind: CUBIN }
    inputs { name: "x" tensor { )" +
         Meta() + R"( } }
    inputs { name: "y" tensor { )" +
         Meta() + R"( } }
    buffers { meta { )" +
         Meta() + R"( } input: 0 }
    buffers { meta { )" +
         Meta() + R"( } input: 1 }
)";
}

// t = x + y in the workspace; out = 2 t, through scratch.
inline constexpr const char* kImage = "add 4\ntwice 4\n";
inline std::string Plan() {
  return TwoInputs() + R"(
    buffers { meta { )" +
         Meta() + R"( } workspace { constant: 64 } }
    buffers { meta { )" +
         Meta() + R"( } owned: true }
    workspace_bytes { constant: 192 }
    steps { launch { function: "add" buffers: 0 buffers: 1 buffers: 2 written: 2
                     integers { constant: 8 } description: "add_3, gelu"
                     cuda { grid { constant: 2 } block: 128 } } }
    steps { launch { function: "twice" buffers: 2 buffers: 3 written: 3 integers { constant: 8 }
                     cuda { grid { constant: 1 } block: 256 shared_bytes: 100000
                            scratch { constant: 128 } waits_itself: true } } }
    outputs { buffer: 3 }
  )";
}

inline v1::Artifact Parse(const std::string& text) {
  v1::Artifact artifact;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &artifact));
  return artifact;
}

inline float* At(uint64_t word) { return reinterpret_cast<float*>(word); }

inline FakeCuda& Driver() {
  static FakeCuda* fake = [] {
    void* library = dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<decltype(&fake_cuda)>(dlsym(library, "fake_cuda"))();
  }();
  return *fake;
}
template <typename Function>
Function DriverFunction(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL), name));
}
inline void SetDevice(int device) {
  DriverFunction<decltype(&fake_cuda_set_device)>("fake_cuda_set_device")(device);
}
inline int GetDevice() {
  return DriverFunction<decltype(&fake_cuda_get_device)>("fake_cuda_get_device")();
}

class RuntimeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TENSORD_CUDA_DRIVER", FAKE_LIBCUDA, 1);
    folder_ = std::filesystem::path(::testing::TempDir()) / ("cuda" + std::to_string(getpid()));
    Driver().Reset();
    SetDevice(0);
    Fake().Reset();
    Fake().set_device = SetDevice;
    Fake().get_device = GetDevice;
    Driver().bodies["add"] = [](const uint64_t* w) {
      for (uint64_t i = 0; i < w[3]; ++i) At(w[2])[i] = At(w[0])[i] + At(w[1])[i];
    };
    Driver().bodies["twice"] = [](const uint64_t* w) {
      for (uint64_t i = 0; i < w[3]; ++i) At(w[1])[i] = 2 * At(w[0])[i];
    };
    x_ = NewFake({kCount}, kCuda, 0, {0, 1, 2, 3, 4, 5, 6, 7});
    y_ = NewFake({kCount}, kCuda, 0, {1, 1, 1, 1, 1, 1, 1, 1});
  }
  void TearDown() override {
    testing::Delete(x_);
    testing::Delete(y_);
    for (TensordProgram* program : programs_) tensord_program_release(program);
    EXPECT_EQ(Fake().live_tensors, 0);
    EXPECT_EQ(Fake().live_guards, 0);
    std::filesystem::remove_all(folder_);
  }

  // A program whose only module is `image`. Images differ between tests, for modules stay loaded.
  TensordProgram* Load(v1::Artifact artifact, std::string image = kImage, int expected = 0) {
    static int number = 0;
    if (fresh_) image += "unused" + std::to_string(++number) + " 1\n";
    fresh_ = true;
    v1::Module& module = *artifact.mutable_modules(0);
    module.set_sha256(Sha256(image));
    module.set_size(image.size());
    const std::string hex = ToHex(module.sha256());
    std::filesystem::create_directories(folder_ / hex.substr(0, 2));
    const std::filesystem::path path = folder_ / hex.substr(0, 2) / hex;
    std::ofstream(path) << image;
    chmod(path.c_str(), 0400);
    const std::string bytes = artifact.SerializeAsString();
    TensordProgram* program = nullptr;
    EXPECT_EQ(tensord_program_load(bytes.data(), bytes.size(), folder_.c_str(), &program), expected)
        << tensord_last_error();
    if (program != nullptr) programs_.push_back(program);
    return program;
  }

  // The code; the outputs are checked to be none unless it is OK.
  int Run(TensordProgram* program, std::vector<TensordTensor> inputs) {
    std::vector<TensordValue> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i].kind = TENSORD_TENSOR;
      values[i].tensor = inputs[i];
    }
    TensordValue outputs[4] = {};
    const size_t count = tensord_program_num_outputs(program);
    const int code = tensord_program_run(program, values.data(), values.size(), outputs, count);
    result_.clear();
    for (size_t i = 0; i < count; ++i) {
      if (outputs[i].kind != TENSORD_TENSOR) continue;
      EXPECT_EQ(code, 0);
      result_.assign(Data(outputs[i].tensor), Data(outputs[i].tensor) + kCount);
      result_device_ = testing::IndexOf(outputs[i].tensor);
      result_data_ = Data(outputs[i].tensor);
      testing::Delete(outputs[i].tensor);
    }
    return code;
  }

  std::filesystem::path folder_;
  bool fresh_ = true;
  TensordTensor x_ = nullptr, y_ = nullptr;
  std::vector<TensordProgram*> programs_;
  std::vector<float> result_;
  int result_device_ = -1;
  float* result_data_ = nullptr;
};

}  // namespace tensord::runtime

#endif  // TENSORD_TESTS_UNIT_RUNTIME_CUDA_FIXTURE_H_
