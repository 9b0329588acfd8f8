// SPDX-License-Identifier: Apache-2.0
// A damaged artifact is an error that names what is wrong; nothing here needs torch.
#include "runtime/load/load.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "runtime/program/layout.h"
#include "tensord/runtime.h"

namespace tensord::runtime {
namespace {

using ::testing::HasSubstr;

// x: input [4, 8]; t = f(x) in the workspace; u = mm(t, x) extern; o = g(t, u) owned; v a view of
// o.
v1::Artifact Sample() {
  v1::Artifact artifact;
  const std::string meta = R"(meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CPU
      sizes { constant: 4 } sizes { constant: 8 } strides { constant: 8 } strides { constant: 1 }
      storage_offset { constant: 0 } } )";
  const std::string text = R"(
    format_version: 6
    target { cpu { isa: ISA_SCALAR } }
    modules { kind: SHARED_OBJECT }
    inputs { name: "x" tensor )" +
                           meta.substr(5) + R"( }
    buffers { )" + meta + R"( input: 0 }
    buffers { )" + meta + R"( workspace { constant: 64 } }
    buffers { )" + meta + R"( extern_result: true }
    buffers { )" + meta + R"( owned: true }
    buffers { meta { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CPU sizes { constant: 8 }
              strides { constant: 4 } storage_offset { constant: 2 } } view_of: 3 }
    workspace_bytes { constant: 192 }
    steps { launch { function: "f" buffers: 0 buffers: 1 written: 1 } }
    steps { call { op: "aten::mm" args { value { value: 1 } } args { value { value: 0 } } results: 2
                   node: "mm" } }
    steps { launch { function: "g" buffers: 1 buffers: 2 buffers: 3 written: 3
                     integers { constant: 5 } } }
    steps { free: 2 }
    outputs { buffer: 3 } outputs { buffer: 4 } outputs { none: true }
    outputs { integer { constant: 3 } }
  )";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &artifact));
  return artifact;
}

TEST(BuildPlan, AcceptsTheSample) {
  TensordProgram program;
  ASSERT_EQ(BuildPlan(Sample(), &program), TENSORD_OK) << LastError();
  std::string steps;
  for (const StepPlan& step : program.steps) steps += "alcfr"[step.kind];
  // The owned buffer is allocated right before its first use, and the input is released before
  // that.
  EXPECT_EQ(steps, "lcralf");
  EXPECT_EQ(program.buffers[4].root, 3u);
  EXPECT_EQ(program.buffers[3].views, std::vector<uint32_t>{4});
  EXPECT_FALSE(program.outputs[0].take);  // another output views it
  EXPECT_EQ(program.outputs[2].kind, OutputPlan::kNone);
  EXPECT_EQ(program.places[4].offset_bytes, 8);
  EXPECT_EQ(program.places[4].extent_bytes, (7 * 4 + 1) * 4);
  EXPECT_FALSE(program.reuses_workspace);  // mm's result might be a view of its argument
}

// What is changed of the sample, and a part of the message about it.
struct Damage {
  const char* name;
  const char* message;
  void (*apply)(v1::Artifact&);
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

const Damage kDamages[] = {
    {"FormatVersion", "format", [](v1::Artifact& a) { a.set_format_version(9); }},
    {"InputOfBuffer", "buffer 0: its input is out of range",
     [](v1::Artifact& a) { a.mutable_buffers(0)->set_input(1); }},
    {"ConstantOfBuffer", "buffer 0: its constant",
     [](v1::Artifact& a) { a.mutable_buffers(0)->set_constant(0); }},
    {"ViewOfItself", "buffer 4 views itself",
     [](v1::Artifact& a) { a.mutable_buffers(4)->set_view_of(4); }},
    {"ViewOutOfRange", "views a buffer out of range",
     [](v1::Artifact& a) { a.mutable_buffers(4)->set_view_of(5); }},
    {"BufferWithoutStorage", "it has no storage",
     [](v1::Artifact& a) { a.mutable_buffers(3)->clear_storage(); }},
    {"ViewOutsideItsBuffer", "outside buffer 3",
     [](v1::Artifact& a) {
       a.mutable_buffers(4)->mutable_meta()->mutable_storage_offset()->set_constant(4);
     }},
    {"BehindTheWorkspace", "outside the workspace",
     [](v1::Artifact& a) { a.mutable_buffers(1)->mutable_workspace()->set_constant(128); }},
    {"BeforeTheWorkspace", "outside the workspace",
     [](v1::Artifact& a) { a.mutable_buffers(1)->mutable_workspace()->set_constant(-64); }},
    {"UnalignedOffset", "unaligned",
     [](v1::Artifact& a) { a.mutable_buffers(1)->mutable_workspace()->set_constant(4); }},
    {"NegativeSize", "negative",
     [](v1::Artifact& a) {
       a.mutable_buffers(1)->mutable_meta()->mutable_sizes(0)->set_constant(-1);
     }},
    {"StrideThatOverflows", "overflows",
     [](v1::Artifact& a) {
       a.mutable_buffers(1)->mutable_meta()->mutable_strides(0)->set_constant(INT64_MAX);
     }},
    {"SizesWithoutStrides", "sizes and strides differ",
     [](v1::Artifact& a) { a.mutable_buffers(1)->mutable_meta()->add_sizes()->set_constant(1); }},
    {"LayoutUnlikeTheInput", "not laid out as the input",
     [](v1::Artifact& a) {
       a.mutable_buffers(0)->mutable_meta()->mutable_sizes(0)->set_constant(5);
     }},
    {"TypeUnlikeTheInput", "differs from its input",
     [](v1::Artifact& a) { a.mutable_buffers(0)->mutable_meta()->set_dtype(v1::DTYPE_FLOAT64); }},
    {"AnotherDevice", "another device",
     [](v1::Artifact& a) {
       a.mutable_buffers(1)->mutable_meta()->set_device(v1::DEVICE_TYPE_CUDA);
     }},
    {"UnknownType", "unknown dtype",
     [](v1::Artifact& a) {
       a.mutable_buffers(1)->mutable_meta()->set_dtype(static_cast<v1::DType>(99));
     }},
    {"UnknownSymbol", "symbol 7",
     [](v1::Artifact& a) {
       a.mutable_buffers(1)->mutable_meta()->mutable_sizes(0)->set_symbol(7);
     }},
    {"UnboundSymbol", "bound to no input", [](v1::Artifact& a) { a.add_symbols()->set_min(2); }},
    {"DefinedByNothing", "symbol 0: a definition rounds",
     [](v1::Artifact& a) { a.add_symbols()->mutable_definition(); }},
    {"BoundToAbsentDimension", "a dimension that is not there",
     [](v1::Artifact& a) {
       a.add_symbols();
       a.add_bindings()->set_dim(2);
     }},
    {"ModuleOfLaunch", "step 0: its module",
     [](v1::Artifact& a) { a.mutable_steps(0)->mutable_launch()->set_module(1); }},
    {"KindOfModule", "no shared object",
     [](v1::Artifact& a) { a.mutable_modules(0)->set_kind(v1::Module::CUBIN); }},
    {"BufferOfLaunch", "buffer 9 is out of range",
     [](v1::Artifact& a) { a.mutable_steps(0)->mutable_launch()->set_buffers(0, 9); }},
    {"WrittenButNotTaken", "writes a buffer that it does not take",
     [](v1::Artifact& a) { a.mutable_steps(0)->mutable_launch()->add_written(3); }},
    {"UseBeforeAValue", "used before a value",
     [](v1::Artifact& a) { a.mutable_steps(0)->mutable_launch()->set_buffers(0, 2); }},
    {"UseAfterTheEnd", "used after its end", [](v1::Artifact& a) { *a.add_steps() = a.steps(2); }},
    {"FreeTwice", "can be freed now", [](v1::Artifact& a) { a.add_steps()->set_free(2); }},
    {"FreeOfAnInput", "can be freed now", [](v1::Artifact& a) { a.add_steps()->set_free(0); }},
    {"FreeOutOfRange", "can be freed now", [](v1::Artifact& a) { a.add_steps()->set_free(77); }},
    {"EmptyStep", "step 4: it is empty", [](v1::Artifact& a) { a.add_steps(); }},
    {"OperatorWithoutNamespace", "no operator's name",
     [](v1::Artifact& a) { a.mutable_steps(1)->mutable_call()->set_op("mm"); }},
    {"EmptyArgument", "an argument is empty",
     [](v1::Artifact& a) { a.mutable_steps(1)->mutable_call()->add_args(); }},
    {"ResultOutOfRange", "result buffer 50",
     [](v1::Artifact& a) { a.mutable_steps(1)->mutable_call()->set_results(0, 50); }},
    {"OutWithoutArgument", "none of the arguments",
     [](v1::Artifact& a) { a.mutable_steps(1)->mutable_call()->set_into_out(true); }},
    {"OutputInTheWorkspace", "output 0 lies in the workspace",
     [](v1::Artifact& a) { a.mutable_outputs(0)->set_buffer(1); }},
    {"OutputThatWasFreed", "output 0",
     [](v1::Artifact& a) { a.mutable_outputs(0)->set_buffer(2); }},
    {"OutputOutOfRange", "output 0: buffer 99",
     [](v1::Artifact& a) { a.mutable_outputs(0)->set_buffer(99); }},
    {"EmptyOutput", "output 4 is empty", [](v1::Artifact& a) { a.add_outputs(); }},
    {"ConstantOfAnotherSize", "constant 0 has 3 bytes, not 128",
     [](v1::Artifact& a) {
       *a.add_constants()->mutable_meta() = a.buffers(0).meta();
       a.mutable_constants(0)->set_data("abc");
     }},
    {"WrittenConstant", "is constant",
     [](v1::Artifact& a) {
       *a.add_constants()->mutable_meta() = a.buffers(0).meta();
       a.mutable_constants(0)->set_data(std::string(128, 'x'));
       a.mutable_buffers(1)->set_constant(0);
     }},
    {"NegativeWorkspace", "negative size",
     [](v1::Artifact& a) { a.mutable_workspace_bytes()->set_constant(-1); }},
};

class DamagedPlan : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedPlan, IsRefused) {
  v1::Artifact artifact = Sample();
  GetParam().apply(artifact);
  TensordProgram program;
  EXPECT_EQ(BuildPlan(artifact, &program), TENSORD_CORRUPT);
  EXPECT_THAT(LastError(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Damages, DamagedPlan, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BuildPlan, CudaProgramsNeedCudaLaunches) {
  v1::Artifact artifact = Sample();
  artifact.mutable_target()->mutable_cuda()->set_sm(90);
  TensordProgram program;
  EXPECT_EQ(BuildPlan(artifact, &program), TENSORD_CORRUPT);
  EXPECT_THAT(LastError(), HasSubstr("the workspace of another device"));
}

// Whatever a flipped byte makes of an artifact, building its plan ends.
TEST(BuildPlan, SurvivesFlippedBytes) {
  const google::protobuf::LogSilencer silencer;
  const std::string good = Sample().SerializeAsString();
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    v1::Artifact artifact;
    TensordProgram program;
    if (!artifact.ParseFromString(bad) || BuildPlan(artifact, &program) != TENSORD_OK) ++refused;
  }
  EXPECT_GT(refused, 10000);
}

TEST(SameLayout, IgnoresStridesThatAddressNothing) {
  const int64_t sizes[] = {1, 4}, strides[] = {4, 1}, other[] = {99, 1}, wrong[] = {4, 2};
  EXPECT_TRUE(SameLayout(2, sizes, strides, sizes, other));
  EXPECT_FALSE(SameLayout(2, sizes, strides, sizes, wrong));
  const int64_t empty[] = {0, 4};
  EXPECT_TRUE(SameLayout(2, empty, strides, empty, wrong));
  EXPECT_FALSE(SameLayout(2, empty, strides, sizes, strides));
}

TEST(Api, LoadsNothingWithoutTorch) {
  const std::string artifact = Sample().SerializeAsString();
  TensordProgram* program = nullptr;
  EXPECT_EQ(tensord_program_load(artifact.data(), artifact.size(), "/nowhere", &program),
            TENSORD_UNAVAILABLE);
  EXPECT_THAT(tensord_last_error(), HasSubstr("torch is not loaded"));
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(tensord_program_load("\xff", 1, "/nowhere", &program), TENSORD_CORRUPT);
  EXPECT_EQ(tensord_program_load(nullptr, 0, "/nowhere", &program), TENSORD_INVALID);
}

}  // namespace
}  // namespace tensord::runtime
