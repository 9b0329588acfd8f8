// SPDX-License-Identifier: Apache-2.0
// Each rule of the kernel IR's verifier, broken once.
#include "compiler/kernel_ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/kernel_ir/kernel_ir.h"

namespace tensord::compiler::ir {
namespace verify_test {

using ::testing::HasSubstr;

const Type kFloats = PointerTo(ScalarType(kFloat32));
const Value kOut = Var("b0", kFloats);
const Value kIn = Var("b1", PointerTo(ScalarType(kFloat32), true));
const Value kShared = Var("shared", kGroupMemoryType);
const Value kVectors = CallOf("load", {ScalarType(kFloat32), Value(4)}, {kIn});

// A function of two groups of 32 threads, which writes one buffer and reads another.
Kernel KernelOf(Block body, Kernel::Device device = Kernel::kCuda) {
  Kernel kernel{.device = device, .buffers = 2, .integers = 1, .written = {0}};
  Function function{
      .name = "nest0",
      .parameters = {{"args", kArgumentsType}, {"block", kIntType}, {"shared", kGroupMemoryType}},
      .body = {{BindPointer{"b0", kOut.type(), 0}},
               {BindPointer{"b1", kIn.type(), 1}},
               {BindInteger{"n0", 0}},
               {Declare{.bindings = {{"T", 64}, {"G", 32}},
                        .type = kIntType,
                        .mutability = Declare::kConstexpr}},
               DeclareAll(kIntType, {{"lane", Thread() % IntVar("G")}})},
      .threads = 64,
      .group = 32,
      .shared_bytes = 128};
  Append(&function.body, body);
  kernel.functions = {std::move(function)};
  return kernel;
}

void ExpectOk(Block body, Kernel::Device device = Kernel::kCuda) {
  const absl::Status status = Verify(KernelOf(std::move(body), device));
  EXPECT_TRUE(status.ok()) << status;
}

void ExpectBroken(Block body, const std::string& why, Kernel::Device device = Kernel::kCuda) {
  const absl::Status status = Verify(KernelOf(std::move(body), device));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("nest0: "));
  EXPECT_THAT(status.message(), HasSubstr(why));
}

Statement Store(const Value& to, const Value& value) {
  return Do(CallOf("store", {ScalarType(kFloat32), Value(4)}, {to, value}));
}

TEST(VerifyKernel, SoundOnes) {
  ExpectOk({Let("v0", kVectors), Store(kOut, Var("v0", kVectors.type()))});
  ExpectOk({Mutable("sum", kVectors), Set(Var("sum", kVectors.type()),
                                          CallOf("add", {Var("sum", kVectors.type()), kVectors}))});
  // What is written may be read.
  ExpectOk({Let("v0", CallOf("load", {ScalarType(kFloat32), Value(4)}, {Var("b0", kIn.type())}))});
  ExpectOk({When(IndexVar("n0") < 3, {{Barrier{}}})});
}

TEST(VerifyKernel, Names) {
  ExpectBroken({Store(kOut, Var("v0", kVectors.type()))}, "is not defined: v0");
  ExpectBroken({Let("v0", kVectors), Let("v0", kVectors)}, "is defined twice: v0");
  ExpectOk({Let("v0", kVectors), {Scope{{Let("v0", kVectors)}}}});
  ExpectBroken({{Scope{{Let("v0", kVectors)}}}, Store(kOut, Var("v0", kVectors.type()))},
               "is not defined: v0");
  ExpectBroken({Let("v0", kVectors), LetIndex("i0", IndexVar("v0"))}, "is of vector<float32, 4>");
  ExpectBroken({LetIndex("i0", Index(Expr::Loop(3, 8), {}))}, "nobody says what i3 is");
}

TEST(VerifyKernel, Types) {
  // A vector where a scalar is wanted, and the other way round.
  ExpectBroken({Let("v1", CallOf("broadcast", {Value(4)}, {kVectors}))}, "operand 0 of type");
  ExpectBroken({Store(kOut, NumberOf(kFloat32, 1, 0))}, "operand 1 of type float32");
  ExpectBroken(
      {Let("v0",
           CallOf("add", {kVectors, CallOf("broadcast", {Value(1)}, {NumberOf(kFloat32, 1, 0)})}))},
      "different lanes");
  ExpectBroken({Let("v0", CallOf("load", {Value(4), ScalarType(kFloat32)}, {kIn}))},
               "template argument 0");
  ExpectBroken({When(IndexVar("n0"), {})}, "is no condition: n0");
  ExpectBroken({LetIndex("i0", kVectors)}, "is declared as index");
  ExpectBroken({LetIndex("i0", IndexVar("n0") + kIn)}, "operands do not fit");
}

TEST(VerifyKernel, Assignments) {
  ExpectBroken({LetIndex("i0", 0), Set(IndexVar("i0"), 1)}, "is a constant: i0");
  ExpectBroken({Mutable("v0", kVectors), Set(Var("v0", kVectors.type()), IndexVar("n0"))},
               "a value of type index does not fit");
  ExpectBroken({Set(IndexVar("n0") + 1, 1)}, "cannot be assigned to");
}

TEST(VerifyKernel, StoresOnlyWhatIsWritten) {
  ExpectBroken({Store(kIn, kVectors)}, "operand 0 of type float32 const*");
  ExpectBroken({Set(At(kIn, 0), NumberOf(kFloat32, 1, 0))}, "through a pointer to constants");
  ExpectBroken({{BindPointer{"b2", kFloats, 1}}},
               "writes through a pointer to what is not written");
  ExpectBroken({{BindPointer{"b2", kIn.type(), 2}}}, "the launch has no buffer for b2");
  ExpectBroken({{BindInteger{"n1", 1}}}, "the launch has no integer for n1");
}

TEST(VerifyKernel, CallsOfTheDevice) {
  const Value transpose = CallOf("transpose", {ScalarType(kFloat32), Value(4)}, {kIn, 4, kOut, 4});
  ExpectBroken({Do(transpose)}, "is not on this device: transpose");
  ExpectOk({Do(transpose)}, Kernel::kCpu);
  ExpectBroken({{Barrier{}}}, "a barrier of a block on a CPU", Kernel::kCpu);
  ExpectBroken({Do(CallOfFunction("nest1", {}))}, "is no function: nest1");
  ExpectBroken({Do(CallOfTile("Tile0", "fill", {}, {kOut, kIn, 1, 2, 3}, kVoidType))},
               "is no tile: Tile0");
}

TEST(VerifyKernel, SharedMemory) {
  ExpectOk({{BindShared{"a", kFloats, 0, 64}}, {BindShared{"b", kFloats, 64, 64}}});
  ExpectBroken({{BindShared{"a", kFloats, 64, 65}}}, "lies beyond the shared memory: a");
  ExpectBroken({{BindShared{"a", kFloats, 0, 64}}, {BindShared{"b", kFloats, 63, 16}}},
               "shares its bytes with a: b");
  Kernel kernel = KernelOf({});
  kernel.cuda = {{.name = "entry", .threads = 64, .shared_bytes = 64}};
  EXPECT_THAT(Verify(kernel).message(), HasSubstr("asks for 64 bytes of shared memory of 128"));
}

// ---- Barriers

const Value kSum = CallOf("reduce_sum", {kVectors});

Statement GroupSum(int threads) {
  return Let("sum", CallOf("group_add", {Value(threads)}, {kSum, kShared}));
}

TEST(VerifyKernel, BarriersUnderConditions) {
  ExpectBroken({When(Thread() == 0, {{Barrier{}}})},
               "not all threads of a block come to a barrier");
  ExpectBroken({When(IntVar("lane") == 0, {GroupSum(32)})}, "of a group come to group_add");
  // A group's threads are in one place here, the block's are not.
  const Value group = Thread() / IntVar("G");
  ExpectOk({When(group == 0, {GroupSum(32)})});
  ExpectBroken({When(group == 0, {GroupSum(64)})}, "of a block come to group_add");
  ExpectBroken({When(group == 0, {{Barrier{}}})}, "of a block come to a barrier");
}

// All threads of a group come to a scan, and each gets its own.
TEST(VerifyKernel, BarriersOfScans) {
  const Value start = CallOf("broadcast", {Value(1)}, {NumberOf(kFloat32, 0, 0)});
  const Value before = Var("before", start.type());
  const auto scan = [&](int threads) {
    return CallOf("group_scan", {Value(threads)},
                  {before, kVectors, CombinerOf("add"), NumberOf(kFloat32, 0, 0), kShared});
  };
  ExpectOk({Mutable("before", start), Let("prefixes", scan(32)), {Barrier{}}});
  ExpectBroken({Mutable("before", start), When(IntVar("lane") == 0, {Let("prefixes", scan(32))})},
               "of a group come to group_scan");
  ExpectBroken(
      {Mutable("before", start), When(CastTo(kIndexType, LaneOf(scan(32), 0)) > 2, {{Barrier{}}})},
      "of a block come to a barrier");
}

TEST(VerifyKernel, BarriersInLoops) {
  const Value i = IndexVar("i");
  ExpectOk({Loop("i", 0, i < IndexVar("n0"), 1, {{Barrier{}}})});
  ExpectBroken({Loop("i", Thread(), i < IndexVar("n0"), 1, {{Barrier{}}})}, "come to a barrier");
  ExpectOk({Loop("i", Thread(), i < IndexVar("n0"), 1, {}), {Barrier{}}});
  // What a turn changes decides on the next one.
  ExpectBroken(
      {{Declare{.bindings = {{"mine", 4}}, .type = kIndexType, .mutability = Declare::kVariable}},
       Loop("i", 0, i < IndexVar("n0"), 1,
            {When(IndexVar("mine") > 2, {{Barrier{}}}), Set(IndexVar("mine"), Thread())})},
      "come to a barrier");
  ExpectBroken(
      {DeclareAll(kIndexType, {{"zero", 0}}),
       {Declare{.bindings = {{"end", 4}}, .type = kIndexType, .mutability = Declare::kVariable}},
       Loop("i", 0, i < IndexVar("end"), 1, {{Barrier{}}, Set(IndexVar("end"), Thread())})},
      "come to a barrier");
}

TEST(VerifyKernel, BarriersBehindReturns) {
  ExpectBroken({When(Thread() == 0, {{Return{}}}), {Barrier{}}}, "come to a barrier");
  ExpectOk({When(IndexVar("n0") == 0, {{Return{}}}), {Barrier{}}});
  const Value counter = CountersArgument();
  ExpectOk({When(Not(CallOf("is_last_block", {counter, 3})), {{Return{}}}), {Barrier{}}});
}

}  // namespace verify_test
}  // namespace tensord::compiler::ir
