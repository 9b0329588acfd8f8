// SPDX-License-Identifier: Apache-2.0
// What a call gives back before it ends.
#include "tests/unit/runtime/cuda_fixture.h"

namespace tensord::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// t = x + y in the workspace; u = 2 t owned; out = u + y.
v1::Artifact ThreeSteps() {
  return Parse(TwoInputs() + R"(
    buffers { meta { )" +
               Meta() + R"( } workspace { constant: 0 } }
    buffers { meta { )" +
               Meta() + R"( } owned: true }
    buffers { meta { )" +
               Meta() + R"( } owned: true }
    workspace_bytes { constant: 64 }
    steps { launch { function: "add" buffers: 0 buffers: 1 buffers: 2 written: 2
                     integers { constant: 8 } cuda { grid { constant: 1 } block: 128 } } }
    steps { launch { function: "twice" buffers: 2 buffers: 3 written: 3 integers { constant: 8 }
                     cuda { grid { constant: 1 } block: 128 } } }
    steps { launch { function: "add" buffers: 3 buffers: 1 buffers: 4 written: 4
                     integers { constant: 8 } cuda { grid { constant: 1 } block: 128 } } }
    steps { free: 3 }
    outputs { buffer: 4 }
  )");
}

class RuntimeLifetimes : public RuntimeCuda {
 protected:
  void SetUp() override {
    RuntimeCuda::SetUp();
    Driver().bodies["twice"] = [](const uint64_t* w) {
      for (uint64_t i = 0; i < w[2]; ++i) At(w[1])[i] = 2 * At(w[0])[i];
    };
    // Tensors that live when a kernel is launched.
    for (const char* kernel : {"add", "twice"}) {
      Driver().bodies[kernel] = [this, body = Driver().bodies[kernel]](const uint64_t* words) {
        live_.push_back(Fake().live_tensors - base_);
        body(words);
      };
    }
  }

  // Runs with inputs of the call's own; those of them that are left are deleted here.
  int RunGiven(TensordProgram* program, std::vector<TensordTensor> inputs,
               size_t given = TENSORD_GIVEN) {
    std::vector<TensordValue> values(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i] = {.kind = TENSORD_TENSOR, .tensor = inputs[i], .size = given};
    }
    TensordValue outputs[4] = {};
    live_.clear();
    base_ = Fake().live_tensors - static_cast<int>(inputs.size());
    const int code = tensord_program_run(program, values.data(), values.size(), outputs,
                                         tensord_program_num_outputs(program));
    left_.clear();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (values[i].tensor == nullptr) continue;
      EXPECT_EQ(values[i].tensor, inputs[i]);
      left_.push_back(i);
      testing::Delete(inputs[i]);
    }
    for (const TensordValue& output : outputs) {
      if (output.kind == TENSORD_TENSOR) testing::Delete(output.tensor);
    }
    EXPECT_EQ(Fake().live_tensors, base_);
    return code;
  }

  std::vector<uint32_t> Released(const TensordProgram* program) {
    const uint32_t* inputs = nullptr;
    const size_t count = tensord_program_released_inputs(program, &inputs);
    return {inputs, inputs + count};
  }

  TensordProgram* Load(v1::Artifact artifact, int expected = TENSORD_OK) {
    return RuntimeCuda::Load(std::move(artifact), "add 4\ntwice 3\n", expected);
  }

  static TensordTensor New() { return NewFake({kCount}, kCuda); }

  int base_ = 0;
  std::vector<int> live_;
  std::vector<size_t> left_;
};

TEST_F(RuntimeLifetimes, ADeadInputGoesBeforeALaterResultIsAllocated) {
  TensordProgram* program = Load(ThreeSteps());
  // y is read by the last step, after all allocations: releasing it saves nothing.
  EXPECT_THAT(Released(program), ElementsAre(0));
  ASSERT_EQ(RunGiven(program, {New(), New()}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(left_, ElementsAre(1));
  // x, y and the workspace; then y, the workspace and u; then the output too.
  EXPECT_THAT(live_, ElementsAre(3, 3, 4));
}

TEST_F(RuntimeLifetimes, ABorrowedInputStays) {
  TensordProgram* program = Load(ThreeSteps());
  ASSERT_EQ(RunGiven(program, {New(), New()}, 0), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(left_, ElementsAre(0, 1));
  EXPECT_THAT(live_, ElementsAre(3, 4, 5));
}

TEST_F(RuntimeLifetimes, ParametersWrittenAndReturnedInputsStay) {
  v1::Artifact parameter = ThreeSteps();
  parameter.mutable_inputs(0)->set_is_parameter(true);
  EXPECT_THAT(Released(Load(parameter)), IsEmpty());

  v1::Artifact written = ThreeSteps();
  written.mutable_steps(0)->mutable_launch()->add_written(0);
  EXPECT_THAT(Released(Load(written)), IsEmpty());

  // A view of it is an output.
  v1::Artifact returned = ThreeSteps();
  v1::Buffer* view = returned.add_buffers();
  *view->mutable_meta() = returned.buffers(0).meta();
  view->set_view_of(0);
  returned.add_outputs()->set_buffer(5);
  TensordProgram* program = Load(returned);
  EXPECT_THAT(Released(program), IsEmpty());
  ASSERT_EQ(RunGiven(program, {New(), New()}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(left_, ElementsAre(0, 1));
}

TEST_F(RuntimeLifetimes, AViewsLastUseCounts) {
  v1::Artifact artifact = ThreeSteps();
  v1::Buffer* view = artifact.add_buffers();
  *view->mutable_meta() = artifact.buffers(0).meta();
  view->set_view_of(0);
  artifact.mutable_steps(1)->mutable_launch()->set_buffers(0, 5);
  TensordProgram* program = Load(artifact);
  EXPECT_THAT(Released(program), ElementsAre(0));
  ASSERT_EQ(RunGiven(program, {New(), New()}), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(live_, ElementsAre(3, 4, 4));
}

TEST_F(RuntimeLifetimes, AFailureInTheMiddleLeaksNothing) {
  TensordProgram* program = Load(ThreeSteps());
  TensordTensor x = New(), y = New();
  Fake().fail_allocation = 3;  // the workspace, u, then the output
  EXPECT_NE(RunGiven(program, {x, y}), TENSORD_OK);
  EXPECT_THAT(left_, ElementsAre(1));
  Fake().fail_allocation = 0;
  // Before the first step nothing is dropped.
  TensordTensor small = NewFake({kCount / 2}, kCuda);
  EXPECT_EQ(RunGiven(program, {New(), small}), TENSORD_INVALID);
  EXPECT_THAT(left_, ElementsAre(0, 1));
}

TEST_F(RuntimeLifetimes, ACopyOfAMisalignedInputGoesToo) {
  TensordProgram* program = Load(ThreeSteps());
  ASSERT_EQ(RunGiven(program, {NewFake({kCount}, kCuda, 0, {}, 4), New()}), TENSORD_OK)
      << tensord_last_error();
  EXPECT_THAT(left_, ElementsAre(1));
  EXPECT_THAT(live_, ElementsAre(4, 3, 4));
}

// The same with t in a block of its own, as a view with an offset.
v1::Artifact WithBlock() {
  v1::Artifact artifact = ThreeSteps();
  v1::Buffer* block = artifact.add_buffers();
  block->mutable_meta()->set_dtype(v1::DTYPE_UINT8);
  block->mutable_meta()->set_device(v1::DEVICE_TYPE_CUDA);
  block->mutable_meta()->add_sizes()->set_constant(128);
  block->mutable_meta()->add_strides()->set_constant(1);
  block->mutable_workspace()->set_constant(64);
  block->set_standalone(true);
  v1::Buffer* t = artifact.mutable_buffers(2);
  t->set_view_of(5);
  t->mutable_meta()->mutable_storage_offset()->set_constant(64 / 4);
  artifact.mutable_standalone_bytes()->set_constant(128);
  return artifact;
}

TEST_F(RuntimeLifetimes, ABlockLivesFromItsFirstUseToItsLast) {
  v1::Artifact artifact = WithBlock();
  artifact.mutable_steps(2)->mutable_launch()->set_buffers(1, 3);  // out = u + u
  TensordProgram* program = Load(artifact);
  EXPECT_THAT(Released(program), ElementsAre(0, 1));
  ASSERT_EQ(RunGiven(program, {New(), New()}), TENSORD_OK) << tensord_last_error();
  // The workspace, the block, x and y; without the inputs, with u; without the block, with the
  // output.
  EXPECT_THAT(live_, ElementsAre(4, 3, 3));
  const auto& launches = Driver().launches;
  EXPECT_EQ(launches[0].words[2], launches[1].words[0]);
  EXPECT_EQ(launches[0].words[2] % 64, 0u);
}

TEST_F(RuntimeLifetimes, ALentWorkspaceHoldsTheBlocksWhereItHasRoom) {
  TensordProgram* program = Load(WithBlock());
  TensordValue inputs[2] = {{.kind = TENSORD_TENSOR, .tensor = x_, .size = 0},
                            {.kind = TENSORD_TENSOR, .tensor = y_, .size = 0}};
  int64_t bytes = 0, least = 0;
  ASSERT_EQ(tensord_program_workspace(program, inputs, 2, &bytes, &least), TENSORD_OK);
  EXPECT_EQ(bytes, 64 + 128);
  EXPECT_EQ(least, 64);
  TensordTensor lent = NewFake({bytes / 4}, kCuda);
  for (int64_t size : {bytes, bytes - 1, least, least - 1}) {
    Driver().launches.clear();
    Fake().allocations = 0;
    tensord_lend_workspace(lent, size);
    ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(3, 5, 7, 9, 11, 13, 15, 17));
    // u and the output; without room for the block also that; without any also the workspace.
    EXPECT_EQ(Fake().allocations, size == bytes ? 2 : size >= least ? 3 : 4);
    EXPECT_EQ(reinterpret_cast<char*>(Driver().launches[0].words[2]) ==
                  reinterpret_cast<char*>(Data(lent)) + 64 + 64,
              size == bytes);
  }
  testing::Delete(lent);
}

// The same with the block in x's memory.
v1::Artifact WithDonor() {
  v1::Artifact artifact = WithBlock();
  artifact.mutable_buffers(5)->mutable_meta()->mutable_sizes(0)->set_constant(4 * kCount);
  artifact.mutable_buffers(5)->set_donor(0);
  artifact.mutable_inputs(0)->set_is_donated(true);
  artifact.mutable_buffers(2)->mutable_meta()->mutable_storage_offset()->set_constant(0);
  return artifact;
}

TEST_F(RuntimeLifetimes, ABlockTakesTheMemoryOfAnInputThatNobodyElseHas) {
  TensordProgram* program = Load(WithDonor());
  EXPECT_THAT(Released(program), ElementsAre(0));
  ASSERT_EQ(RunGiven(program, {New(), New()}, TENSORD_DONATED), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(left_, ElementsAre(1));
  const auto& launches = Driver().launches;
  EXPECT_EQ(launches[0].words[2], launches[0].words[0]);
  // The workspace, x, y, and the block as another tensor on x's memory.
  EXPECT_EQ(live_[0], 4);
  EXPECT_EQ(Fake().allocations, 3);  // the workspace, u, the output: no block
}

TEST_F(RuntimeLifetimes, ABlockHasMemoryOfItsOwnWhereTheDonorsIsNotToBeHad) {
  TensordProgram* program = Load(WithDonor());
  const auto apart = [&](TensordTensor x, size_t given) {
    Driver().launches.clear();
    EXPECT_EQ(RunGiven(program, {x, New()}, given), TENSORD_OK) << tensord_last_error();
    const auto& words = Driver().launches.at(0).words;
    return words[2] != words[0];
  };
  EXPECT_TRUE(apart(New(), 0));
  EXPECT_TRUE(apart(New(), TENSORD_GIVEN));
  EXPECT_FALSE(apart(New(), TENSORD_DONATED));
  // What kernels cannot read where it is.
  EXPECT_TRUE(apart(NewFake({kCount}, kCuda, 0, {}, 4), TENSORD_DONATED));
}

// As a seed of random numbers is, which a library puts beside another.
TEST_F(RuntimeLifetimes, AnotherInputThatIsCopiedTakesNoDonorAway) {
  TensordProgram* program = Load(WithDonor());
  TensordTensor misaligned = NewFake({kCount}, kCuda, 0, {}, 4);
  ASSERT_EQ(RunGiven(program, {New(), misaligned}, TENSORD_DONATED), TENSORD_OK)
      << tensord_last_error();
  EXPECT_EQ(Driver().launches.at(0).words[2], Driver().launches.at(0).words[0]);
}

TEST_F(RuntimeLifetimes, RefusesADonorThatIsNoDonatedTensor) {
  v1::Artifact artifact = WithDonor();
  for (const uint32_t input : {1u, 2u}) {
    artifact.mutable_buffers(5)->set_donor(input);
    Load(artifact, TENSORD_CORRUPT);
  }
  artifact.mutable_buffers(5)->set_donor(0);
  artifact.mutable_buffers(5)->set_standalone(false);
  Load(artifact, TENSORD_CORRUPT);
}

TEST_F(RuntimeLifetimes, RefusesABlockOutsideItsRoom) {
  for (int64_t offset : {0, 128}) {
    v1::Artifact artifact = WithBlock();
    artifact.mutable_buffers(5)->mutable_workspace()->set_constant(offset);
    Load(artifact, TENSORD_CORRUPT);
  }
  v1::Artifact artifact = WithBlock();
  artifact.mutable_standalone_bytes()->set_constant(-64);
  Load(artifact, TENSORD_CORRUPT);
}

}  // namespace
}  // namespace tensord::runtime
