// SPDX-License-Identifier: Apache-2.0
// CUDA programs: what is loaded, launched, copied and allocated.
#include <thread>

#include "tests/unit/runtime/cuda_fixture.h"

extern "C" int32_t aoti_torch__reinterpret_tensor(TensordTensor, int64_t, const int64_t*,
                                                  const int64_t*, int64_t, TensordTensor*);

extern "C" int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t,
                                            int32_t, int32_t, TensordTensor*);

namespace tensord::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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
  EXPECT_FALSE(add.programmatic);
  EXPECT_TRUE(twice.programmatic);
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
  // A call costs the driver its launches and a look at the context and its device.
  const int before = Driver().calls;
  ASSERT_EQ(Run(programs_[0], {x_, y_}), TENSORD_OK);
  EXPECT_EQ(Driver().calls - before, 4);
}

TEST_F(RuntimeCuda, TheNextCallTakesALentWorkspace) {
  TensordProgram* program = Load(Parse(Plan()));
  TensordValue inputs[2] = {};
  for (int i = 0; i < 2; ++i) inputs[i].kind = TENSORD_TENSOR;
  inputs[0].tensor = x_;
  inputs[1].tensor = y_;
  int64_t bytes = 0, least = 0;
  ASSERT_EQ(tensord_program_workspace(program, inputs, 2, &bytes, &least), TENSORD_OK);
  EXPECT_EQ(bytes, 192);
  EXPECT_EQ(least, 192);
  EXPECT_EQ(tensord_program_workspace(program, inputs, 1, &bytes, &least), TENSORD_INVALID);
  TensordTensor lent = NewFake({bytes / 4}, kCuda);
  for (int64_t size : {bytes, bytes - 1}) {  // too small is as none
    Driver().launches.clear();
    Fake().allocations = 0;
    tensord_lend_workspace(lent, size);
    ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
    EXPECT_EQ(Fake().allocations, size == bytes ? 1 : 2);
    EXPECT_EQ(reinterpret_cast<char*>(Driver().launches[0].words[2]) ==
                  reinterpret_cast<char*>(Data(lent)) + 64,
              size == bytes);
  }
  // One call takes it, the next has its own again.
  tensord_lend_workspace(lent, bytes);
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  Fake().allocations = 0;
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  EXPECT_EQ(Fake().allocations, 2);
  testing::Delete(lent);
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

int short_ways = 0;
bool short_way_fails = false;

TensordTensor EmptyByAShortWay(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                               int32_t dtype) {
  ++short_ways;
  TensordTensor tensor = nullptr;
  if (short_way_fails) return nullptr;
  aoti_torch_empty_strided(ndim, sizes, strides, dtype, kCuda, GetDevice(), &tensor);
  return tensor;
}

TEST_F(RuntimeCuda, AllocatesByAShortWayWhereThereIsOne) {
  TensordProgram* program = Load(Parse(Plan()));
  tensord_set_cuda_empty(EmptyByAShortWay);
  TensordTensor x = NewFake({kCount}, kCuda, 3), y = NewFake({kCount}, kCuda, 3);
  for (const bool fails : {false, true}) {
    short_way_fails = fails;
    short_ways = Fake().allocations = 0;
    ASSERT_EQ(Run(program, {x, y}), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(short_ways, 2);  // the workspace and the result
    EXPECT_EQ(Fake().allocations, 2);
    EXPECT_EQ(result_device_, 3);
  }
  // Where neither way has memory torch's words are told.
  Fake().fail_allocation = 1;
  EXPECT_EQ(Run(program, {x, y}), TENSORD_OUT_OF_MEMORY);
  tensord_set_cuda_empty(nullptr);
  for (TensordTensor tensor : {x, y}) testing::Delete(tensor);
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
  EXPECT_EQ(Driver().asked_without_context, 0);  // compute-sanitizer reports the driver's answer
}

TEST_F(RuntimeCuda, KernelsMayBeKeptFromBeginningEarly) {
  setenv("TENSORD_PROGRAMMATIC_LAUNCH", "0", 1);
  TensordProgram* program = Load(Parse(Plan()));
  unsetenv("TENSORD_PROGRAMMATIC_LAUNCH");
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_FALSE(Driver().launches[1].programmatic);
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

// x's and y's own counters are one: it is zeroed once, before the launches that count with it.
TEST_F(RuntimeCuda, CountersAreZeroedAndPassed) {
  v1::Artifact artifact = Parse(Plan());
  artifact.mutable_workspace_bytes()->set_constant(256);
  const v1::Artifact zeroes =
      Parse("steps { zero_fill { offset { constant: 192 } bytes { constant: 64 } } }");
  artifact.mutable_steps()->Add()->CopyFrom(zeroes.steps(0));
  artifact.mutable_steps()->SwapElements(0, 2);
  artifact.mutable_steps()->SwapElements(1, 2);
  for (int i = 1; i < 3; ++i) {
    v1::CudaLaunch* cuda = artifact.mutable_steps(i)->mutable_launch()->mutable_cuda();
    cuda->mutable_counters()->set_constant(192);
  }
  Driver().bodies["add"] = [](const uint64_t* w) {
    EXPECT_EQ(++*reinterpret_cast<uint32_t*>(w[3]), 1u);
    for (uint64_t i = 0; i < w[4]; ++i) At(w[2])[i] = At(w[0])[i] + At(w[1])[i];
  };
  Driver().bodies["twice"] = [](const uint64_t* w) {
    for (uint64_t i = 0; i < w[4]; ++i) At(w[1])[i] = 2 * At(w[0])[i];
  };
  TensordProgram* program = Load(artifact, "add 5\ntwice 5\n");
  for (int call = 0; call < 2; ++call) {
    Driver().launches.clear();
    ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
    // Pointers, the scratch pointer, the counters, the integers.
    const FakeLaunch& twice = Driver().launches[1];
    EXPECT_EQ(twice.words[3] - twice.words[2], 64u);
    EXPECT_EQ(twice.words[4], 8u);
    ASSERT_EQ(Driver().fills.size(), call + 1u);
    EXPECT_EQ(Driver().fills[call], std::make_pair(twice.words[3], size_t{64}));
  }
  Driver().failures["cuMemsetD8Async"] = 700;
  EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OPERATOR);
  EXPECT_THAT(tensord_last_error(), ::testing::HasSubstr("workspace was zeroed"));
}

TEST_F(RuntimeCuda, ZeroesOutsideTheWorkspaceAreRefused) {
  for (const char* range : {"offset { constant: 64 } bytes { constant: 192 }",
                            "offset { constant: -64 } bytes { constant: 64 }",
                            "offset { constant: 0 } bytes { constant: -1 }"}) {
    v1::Artifact artifact = Parse(Plan());
    artifact.mutable_steps()->Add()->CopyFrom(
        Parse(std::string("steps { zero_fill { ") + range + " } }").steps(0));
    TensordProgram* program = Load(artifact);
    EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OPERATOR) << range;
    EXPECT_THAT(tensord_last_error(), ::testing::HasSubstr("outside the workspace"));
  }
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

// Some count from the start of their argument's memory (as_strided), and give a view of it.
TEST_F(RuntimeCuda, CallsHaveMisalignedInputsThemselvesAndKernelsAlignedResults) {
  v1::Artifact artifact = Parse(Plan());
  v1::Buffer* seen = artifact.add_buffers();
  *seen->mutable_meta() = artifact.buffers(0).meta();
  seen->set_extern_result(true);
  v1::ExternCall* call = artifact.add_steps()->mutable_call();
  call->set_op("tensord::call_back");
  call->add_args()->mutable_value()->set_value(0);
  call->add_results(4);
  *artifact.add_steps()->mutable_launch() = artifact.steps(1).launch();
  artifact.mutable_steps(3)->mutable_launch()->set_buffers(0, 4);
  const TensordOperatorFn view = [](void* given, const TensordOperatorCall* request) {
    *static_cast<TensordTensor*>(given) = request->args[0].tensor;
    const int64_t size = kCount, stride = 1;
    return aoti_torch__reinterpret_tensor(request->args[0].tensor, 1, &size, &stride, 0,
                                          &request->results[0]);
  };
  TensordTensor given = nullptr;
  tensord_set_operator_caller(view, &given);
  TensordTensor x = NewFake({kCount}, kCuda, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 4);
  TensordProgram* program = Load(artifact);
  const int before = Fake().live_tensors;
  ASSERT_EQ(Run(program, {x, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(given, x);
  EXPECT_EQ(Driver().launches[0].words[0] % 16, 0u);
  EXPECT_EQ(Driver().launches[2].words[0] % 16, 0u);
  EXPECT_EQ(Fake().copies, 2);
  EXPECT_EQ(Fake().live_tensors, before);
  tensord_set_operator_caller(nullptr, nullptr);
  testing::Delete(x);
}

// A call before the first write counts from the start of the input's memory; one behind it sees
// what was written.
TEST_F(RuntimeCuda, CallsHaveMisalignedInputsThemselvesUntilTheyAreWritten) {
  v1::Artifact artifact = Parse(R"(
    format_version: 6 target { cuda { sm: 90 } } modules { kind: CUBIN }
    inputs { name: "x" tensor { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 8 }
             strides { constant: 1 } storage_offset { constant: 1 } } }
    buffers { meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 8 }
              strides { constant: 1 } storage_offset { constant: 1 } } input: 0 }
    buffers { meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CUDA sizes { constant: 2 }
              strides { constant: 1 } storage_offset { constant: 1 } } view_of: 0 }
    steps { call { op: "tensord::call_back" args { value { value: 0 } }
                   args { value { value: 1 } } } }
    steps { launch { function: "fill" buffers: 0 written: 0
                     cuda { grid { constant: 1 } block: 32 } } }
    steps { call { op: "tensord::call_back" args { value { value: 0 } }
                   args { value { value: 1 } } } }
  )");
  Driver().bodies["fill"] = [](const uint64_t* w) {
    EXPECT_EQ(w[0] % 16, 0u);
    std::fill_n(At(w[0]), kCount, 7.0f);
  };
  struct Seen {
    std::vector<TensordTensor> inputs;
    std::vector<float> firsts;  // of inputs, and of their views
  } seen;
  const TensordOperatorFn look = [](void* to, const TensordOperatorCall* request) {
    Seen& seen = *static_cast<Seen*>(to);
    seen.inputs.push_back(request->args[0].tensor);
    for (int i : {0, 1}) seen.firsts.push_back(*Data(request->args[i].tensor));
    return 0;
  };
  tensord_set_operator_caller(look, &seen);
  TensordTensor x = NewFake({kCount}, kCuda, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 4);
  TensordProgram* program = Load(artifact, "fill 1\n");
  const int before = Fake().live_tensors;
  ASSERT_EQ(Run(program, {x}), TENSORD_OK) << tensord_last_error();
  ASSERT_EQ(seen.inputs.size(), 2u);
  EXPECT_EQ(seen.inputs[0], x);
  EXPECT_NE(seen.inputs[1], x);
  EXPECT_THAT(seen.firsts, ElementsAre(0, 0, 7, 7));
  EXPECT_EQ(*Data(x), 7);
  EXPECT_EQ(Fake().live_tensors, before);
  tensord_set_operator_caller(nullptr, nullptr);
  testing::Delete(x);
}

// x[1:7:3] of a base is written; an as_strided view reads the element before it.
TEST_F(RuntimeCuda, MisalignedInputsThatAreWrittenAreCopiedBack) {
  v1::Artifact artifact = Parse(R"(
    format_version: 6 target { cuda { sm: 90 } } modules { kind: CUBIN }
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

// A gradient of a convolution whose first result is absent is that of CUDA all the same.
TEST_F(RuntimeCuda, ConvolutionsAreCalledDirectly) {
  v1::Artifact artifact = Parse(Plan());
  v1::Buffer* of_weight = artifact.add_buffers();
  *of_weight->mutable_meta() = artifact.buffers(0).meta();
  of_weight->clear_storage();
  of_weight->set_extern_result(true);
  artifact.add_buffers()->set_extern_result(true);  // absent
  const std::string two =
      "{ list { items { integer { constant: 2 } } items { integer { constant: 3 }"
      " } } }";
  const std::string text =
      "steps { call { op: \"aten::convolution_backward\" node: \"c\" args { value { value: 0 } }"
      " args { value { value: 0 } } args { value { value: 0 } } args { none: true } args " +
      two + " args " + two + " args " + two + " args { boolean: false } args " + two +
      " args { integer { constant: 1 } } args { list { items { boolean: false } items { boolean: "
      "true }"
      " items { boolean: false } } } results: 5 results: 4 } }";
  artifact.MergeFrom(Parse(text));
  const int before = Fake().live_tensors;
  ASSERT_EQ(Run(Load(artifact), {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, ElementsAre("cuda_convolution_backward on cuda"));
  EXPECT_EQ(Fake().live_tensors, before);  // also what nobody asked for
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

}  // namespace
}  // namespace tensord::runtime
