// CUDA programs on a fake driver and a fake torch: what is loaded, launched, allocated and
// reported.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/sha256.h"
#include "fake_libcuda.h"
#include "fake_torch.h"
#include "tensord/runtime.h"
#include "tensord/v1/artifact.pb.h"

extern "C" int32_t aoti_torch__reinterpret_tensor(TensordTensor, int64_t, const int64_t*,
                                                  const int64_t*, int64_t, TensordTensor*);

namespace tensord::runtime {
namespace {

using ::testing::AllOf;
using testing::Data;
using ::testing::ElementsAre;
using testing::Fake;
using testing::FakeTorch;
using ::testing::HasSubstr;
using testing::kCpu;
using testing::kCuda;
using testing::NewFake;
using ::testing::SizeIs;

constexpr int64_t kCount = 8;

// float32[8] on CUDA, or what `more` makes of it.
std::string Meta(const std::string& device = "CUDA") {
  return "dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_" + device +
         " sizes { constant: 8 } strides { constant: 1 } storage_offset { constant: 0 } ";
}

// t = x + y in the workspace; out = 2 t, through scratch.
const char* const kImage = "add 4\ntwice 4\n";
std::string Plan() {
  return R"(
    format_version: 1
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
                            scratch { constant: 128 } } } }
    outputs { buffer: 3 }
  )";
}

v1::Artifact Parse(const std::string& text) {
  v1::Artifact artifact;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &artifact));
  return artifact;
}

float* At(uint64_t word) { return reinterpret_cast<float*>(word); }

FakeCuda& Driver() {
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
void SetDevice(int device) {
  DriverFunction<decltype(&fake_cuda_set_device)>("fake_cuda_set_device")(device);
}
int GetDevice() {
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

TEST_F(RuntimeCuda, RunsAndPacksTheArguments) {
  TensordProgram* program = Load(Parse(Plan()));
  EXPECT_THAT(Driver().loads, SizeIs(0));  // nothing of CUDA before the first call
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
  ASSERT_THAT(Driver().launches, SizeIs(2));
  const FakeLaunch &add = Driver().launches[0], &twice = Driver().launches[1];
  EXPECT_EQ(add.kernel, "add");
  EXPECT_EQ(add.grid, 2u);
  EXPECT_EQ(add.block, 128u);
  EXPECT_EQ(add.shared_bytes, 0u);
  EXPECT_EQ(add.stream, testing::StreamOf(0));
  EXPECT_EQ(At(add.words[0]), Data(x_));
  EXPECT_EQ(At(add.words[1]), Data(y_));
  EXPECT_EQ(add.words[3], 8u);
  // Pointers, then the scratch pointer (128 bytes into the workspace), then the integers.
  EXPECT_EQ(twice.words[0], add.words[2]);
  EXPECT_EQ(At(twice.words[1]), result_data_);
  EXPECT_EQ(twice.words[2], add.words[2] - 64 + 128);
  EXPECT_EQ(twice.words[3], 8u);
  EXPECT_EQ(twice.shared_bytes, 100000u);
  EXPECT_THAT(Driver().shared_limits, ElementsAre(std::pair("twice", 100000)));
  EXPECT_EQ(Fake().allocations, 2);  // the workspace and the output
  EXPECT_EQ(Fake().guards, 0);
  EXPECT_EQ(Fake().live_tensors, 2);  // no workspace is kept
}

TEST_F(RuntimeCuda, LoadsAModuleOncePerProcess) {
  const v1::Artifact artifact = Parse(Plan());
  const std::string image = std::string(kImage) + "once 1\n";
  fresh_ = false;
  TensordProgram* first = Load(artifact, image);
  fresh_ = false;
  TensordProgram* second = Load(artifact, image);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Run(first, {x_, y_}), TENSORD_OK) << tensord_last_error();
    ASSERT_EQ(Run(second, {x_, y_}), TENSORD_OK);
  }
  TensordTensor x1 = NewFake({kCount}, kCuda, 1), y1 = NewFake({kCount}, kCuda, 1);
  ASSERT_EQ(Run(first, {x1, y1}), TENSORD_OK) << tensord_last_error();
  testing::Delete(x1);
  testing::Delete(y1);
  EXPECT_THAT(Driver().loads, SizeIs(1));
  // It stays when all programs are gone: a kernel may still run.
  for (TensordProgram* program : programs_) tensord_program_release(program);
  programs_.clear();
  fresh_ = false;
  ASSERT_EQ(Run(Load(artifact, image), {x_, y_}), TENSORD_OK);
  EXPECT_THAT(Driver().loads, SizeIs(1));
  // A call costs the driver its launches and one look at the device.
  const int before = Driver().calls;
  ASSERT_EQ(Run(programs_[0], {x_, y_}), TENSORD_OK);
  EXPECT_EQ(Driver().calls - before, 3);
}

TEST_F(RuntimeCuda, RunsOnTheInputsDevice) {
  TensordProgram* program = Load(Parse(Plan()));
  TensordTensor x = NewFake({kCount}, kCuda, 3), y = NewFake({kCount}, kCuda, 3);
  ASSERT_EQ(Run(program, {x, y}), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(Driver().launches[1].device, 3);
  EXPECT_EQ(Driver().launches[1].stream, testing::StreamOf(3));
  EXPECT_EQ(result_device_, 3);
  EXPECT_EQ(GetDevice(), 0);  // as before
  EXPECT_EQ(Run(program, {x_, y}), TENSORD_INVALID);
  EXPECT_THAT(tensord_last_error(), HasSubstr("input 1 'y' is on cuda:3, inputs before it are on "
                                              "cuda:0"));
  TensordTensor host = NewFake({kCount}, kCpu);
  EXPECT_EQ(Run(program, {x_, host}), TENSORD_INVALID);
  EXPECT_THAT(tensord_last_error(), AllOf(HasSubstr("input 1 'y'"), HasSubstr("on cpu")));
  for (TensordTensor tensor : {x, y, host}) testing::Delete(tensor);
}

TEST_F(RuntimeCuda, AThreadWithoutAContextGetsTorchs) {
  TensordProgram* program = Load(Parse(Plan()));
  int code = -1;
  std::thread([&] {
    SetDevice(-1);
    code = Run(program, {x_, y_});
    EXPECT_EQ(GetDevice(), 0);
  }).join();
  EXPECT_EQ(code, TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(Driver().contexts_set, 1);
}

TEST_F(RuntimeCuda, SkipsAnEmptyGrid) {
  v1::Artifact artifact = Parse(Plan());
  artifact.mutable_steps(0)->mutable_launch()->mutable_cuda()->mutable_grid()->set_constant(0);
  ASSERT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OK) << tensord_last_error();
  ASSERT_THAT(Driver().launches, SizeIs(1));
  EXPECT_EQ(Driver().launches[0].kernel, "twice");
  artifact.mutable_steps(0)->mutable_launch()->mutable_cuda()->mutable_grid()->set_constant(-1);
  EXPECT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OPERATOR);
  EXPECT_THAT(tensord_last_error(), HasSubstr("-1 blocks"));
}

TEST_F(RuntimeCuda, SymbolsReachGridAndIntegers) {
  v1::Artifact artifact = Parse(Plan());
  v1::Symbol* symbol = artifact.add_symbols();
  symbol->set_min(2);
  symbol->set_max(100);
  v1::SymbolBinding* binding = artifact.add_bindings();
  binding->set_input(0);
  binding->set_dim(0);
  auto dynamic = [](v1::TensorMeta* meta) { meta->mutable_sizes(0)->set_symbol(0); };
  for (int i = 0; i < 2; ++i) dynamic(artifact.mutable_inputs(i)->mutable_tensor());
  for (v1::Buffer& buffer : *artifact.mutable_buffers()) dynamic(buffer.mutable_meta());
  for (v1::Step& step : *artifact.mutable_steps()) {
    step.mutable_launch()->mutable_integers(0)->set_symbol(0);
    step.mutable_launch()->mutable_cuda()->mutable_grid()->set_symbol(0);
  }
  TensordProgram* program = Load(artifact);
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  TensordTensor x = NewFake({12}, kCuda), y = NewFake({12}, kCuda);
  ASSERT_EQ(Run(program, {x, y}), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(Driver().launches[0].grid, 8u);
  EXPECT_EQ(Driver().launches[2].grid, 12u);
  EXPECT_EQ(Driver().launches[3].words[3], 12u);
  testing::Delete(x);
  testing::Delete(y);
}

TEST_F(RuntimeCuda, AnErrorNamesTheKernelAndItsOperators) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  Driver().failures["cuLaunchKernel"] = 700;
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

TEST_F(RuntimeCuda, MisalignedInputsAreCopied) {
  TensordProgram* program = Load(Parse(Plan()));
  TensordTensor x = NewFake({kCount}, kCuda, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 4);
  ASSERT_EQ(Run(program, {x, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
  EXPECT_EQ(Driver().launches[0].words[0] % 16, 0u);
  EXPECT_EQ(At(Driver().launches[0].words[1]), Data(y_));
  EXPECT_EQ(Fake().copies, 1);
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  EXPECT_EQ(Fake().copies, 1);
  testing::Delete(x);
}

// x[1:7:3] of a base is written; an as_strided view reads the element before it.
TEST_F(RuntimeCuda, MisalignedInputsThatAreWrittenAreCopiedBack) {
  v1::Artifact artifact = Parse(R"(
    format_version: 1 target { cuda { sm: 90 } } modules { kind: CUBIN }
    inputs { name: "x" tensor { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 2 }
             strides { constant: 3 } storage_offset { constant: 1 } } }
    buffers { meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 2 }
              strides { constant: 3 } storage_offset { constant: 1 } } input: 0 }
    buffers { meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 1 }
              strides { constant: 1 } storage_offset { constant: 0 } } view_of: 0 }
    steps { launch { function: "shift" buffers: 0 buffers: 1 written: 0
                     cuda { grid { constant: 1 } block: 32 } } }
    outputs { buffer: 0 }
  )");
  Driver().bodies["shift"] = [](const uint64_t* w) {
    EXPECT_EQ(w[0] % 16, 0u);
    EXPECT_EQ(w[1], w[0] - 4);
    At(w[0])[0] += 10 * At(w[1])[0];
    At(w[0])[3] += 10 * At(w[1])[0];
    At(w[0])[1] = -1;  // between the elements: not x's, so not to be copied back
  };
  TensordTensor base = NewFake({kCount}, kCuda, 0, {9, 1, 2, 3, 4, 5, 6, 7});
  TensordProgram* program = Load(artifact, "shift 2\n");
  // The input as torch would give it: the same storage, offset 1.
  const int64_t size = 2, stride = 3;
  TensordTensor x = nullptr;
  aoti_torch__reinterpret_tensor(base, 1, &size, &stride, 1, &x);
  ASSERT_EQ(Run(program, {x}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(std::vector<float>(Data(base), Data(base) + kCount),
              ElementsAre(9, 91, 2, 3, 94, 5, 6, 7));
  EXPECT_EQ(result_data_, Data(x));  // the output is the input, not its copy
  testing::Delete(x);
  testing::Delete(base);
}

TEST_F(RuntimeCuda, ConstantsAreOnEachDevice) {
  v1::Artifact artifact = Parse(Plan());
  v1::Constant* constant = artifact.add_constants();
  *constant->mutable_meta() = artifact.buffers(0).meta();
  const std::vector<float> values = {5, 5, 5, 5, 5, 5, 5, 5};
  constant->set_data(std::string(reinterpret_cast<const char*>(values.data()), 32));
  artifact.mutable_buffers(1)->set_constant(0);
  TensordProgram* program = Load(artifact);
  for (int device : {0, 1, 0, 1}) {
    TensordTensor x = NewFake({kCount}, kCuda, device, {0, 1, 2, 3, 4, 5, 6, 7});
    ASSERT_EQ(Run(program, {x, y_}), device == 0 ? TENSORD_OK : TENSORD_INVALID);
    TensordTensor y = NewFake({kCount}, kCuda, device);
    ASSERT_EQ(Run(program, {x, y}), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(10, 12, 14, 16, 18, 20, 22, 24));
    testing::Delete(x);
    testing::Delete(y);
  }
  EXPECT_EQ(Fake().copies, 2);  // one for each device
}

TEST_F(RuntimeCuda, ProductsGoToTheDevicesKernels) {
  v1::Artifact artifact = Parse(Plan());
  v1::ExternCall* call = artifact.add_steps()->mutable_call();
  call->set_op("aten::mm");
  call->set_overload("out");
  call->set_into_out(true);
  call->set_node("mm");
  for (uint32_t buffer : {0, 1, 3}) call->add_args()->mutable_value()->set_value(buffer);
  call->add_results(3);
  ASSERT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, ElementsAre("cuda_mm_out on cuda"));
  // This torch has no CUDA kernel for it, and no CPU kernel is taken instead.
  call->set_op("aten::bmm");
  artifact.mutable_steps(2)->mutable_call()->set_op("aten::bmm");
  EXPECT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OPERATOR);
  EXPECT_THAT(tensord_last_error(), HasSubstr("no operator caller"));
  EXPECT_THAT(Fake().products, SizeIs(1));
}

struct OperatorSeen {
  int64_t kind = -1;
  size_t index = 99;
  int code = 0;
};
int CallOperator(void* context, const TensordOperatorCall* call) {
  auto* seen = static_cast<OperatorSeen*>(context);
  seen->kind = call->args[0].integer;
  seen->index = call->args[0].size;
  if (seen->code != 0) {
    tensord_set_error("CUDA out of memory. Tried to allocate 2.00 TiB.");
    return seen->code;
  }
  call->results[0] = NewFake({kCount}, kCuda, 2);
  return 0;
}

TEST_F(RuntimeCuda, OperatorsGetTheDeviceWithItsIndex) {
  v1::Artifact artifact = Parse(Plan());
  v1::ExternCall* call = artifact.add_steps()->mutable_call();
  call->set_op("tensord::make");
  call->set_node("make");
  call->add_args()->set_device(v1::DEVICE_TYPE_CUDA);
  v1::Buffer* buffer = artifact.add_buffers();
  *buffer->mutable_meta() = artifact.buffers(0).meta();
  buffer->set_extern_result(true);
  call->add_results(4);
  TensordProgram* program = Load(artifact);
  OperatorSeen seen;
  tensord_set_operator_caller(CallOperator, &seen);
  TensordTensor x = NewFake({kCount}, kCuda, 2), y = NewFake({kCount}, kCuda, 2);
  EXPECT_EQ(Run(program, {x, y}), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(seen.kind, kCuda);
  EXPECT_EQ(seen.index, 2u);
  seen.code = TENSORD_OUT_OF_MEMORY;
  EXPECT_EQ(Run(program, {x, y}), TENSORD_OUT_OF_MEMORY);
  EXPECT_THAT(tensord_last_error(), HasSubstr("node 'make' (tensord::make): CUDA out of memory"));
  tensord_set_operator_caller(nullptr, nullptr);
  testing::Delete(x);
  testing::Delete(y);
}

// Attention keeps a seed for its backward operator, on the CPU or on the device as torch likes.
TEST_F(RuntimeCuda, SeedsOfOperatorsMayBeElsewhere) {
  v1::Artifact artifact = Parse(Plan());
  v1::Buffer* seed = artifact.add_buffers();
  seed->mutable_meta()->set_dtype(v1::DTYPE_INT64);
  seed->mutable_meta()->set_device(v1::DEVICE_TYPE_CUDA);
  seed->set_extern_result(true);
  v1::ExternCall* call = artifact.add_steps()->mutable_call();
  call->set_op("tensord::attention");
  call->add_args()->mutable_value()->set_value(0);
  call->add_results(4);
  const TensordOperatorFn on_the_cpu = [](void*, const TensordOperatorCall* request) {
    request->results[0] = NewFake({}, kCpu, 0, {}, 0, testing::kInt64);
    return 0;
  };
  tensord_set_operator_caller(on_the_cpu, nullptr);
  EXPECT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OK) << tensord_last_error();
  // A kernel cannot read it there.
  v1::KernelLaunch* launch = artifact.mutable_steps(1)->mutable_launch();
  *artifact.add_steps()->mutable_launch() = *launch;
  artifact.mutable_steps(3)->mutable_launch()->set_buffers(0, 4);
  EXPECT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OPERATOR);
  EXPECT_THAT(tensord_last_error(), HasSubstr("on cpu where int64[] strides [] on cuda"));
  tensord_set_operator_caller(nullptr, nullptr);
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
