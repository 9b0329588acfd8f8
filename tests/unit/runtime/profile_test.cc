// SPDX-License-Identifier: Apache-2.0
// Profiles of programs: which steps are timed, in which order, and what that leaves behind.
#include "runtime/profile/profile.h"

#include <sys/wait.h>

#include <thread>

#include "tests/unit/runtime/cuda_fixture.h"

namespace tensord::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The runs that a take gives, copied.
struct ProfiledRun {
  uint64_t program, begin, end;
  int32_t device;
  std::vector<int64_t> symbols;
  std::vector<TensordStepTime> steps;
};

class RuntimeProfile : public RuntimeCuda {
 protected:
  void TearDown() override {
    tensord_profile_end();
    EXPECT_EQ(Driver().live_events, 0);
    RuntimeCuda::TearDown();
  }

  static std::vector<ProfiledRun> Take(uint64_t expected_dropped = 0) {
    const TensordRunTimes* runs = nullptr;
    size_t count = 0;
    uint64_t dropped = 0;
    EXPECT_EQ(tensord_profile_take(&runs, &count, &dropped), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(dropped, expected_dropped);
    std::vector<ProfiledRun> copies;
    for (size_t i = 0; i < count; ++i) {
      const TensordRunTimes& run = runs[i];
      copies.push_back({run.program,
                        run.begin,
                        run.end,
                        run.device,
                        {run.symbols, run.symbols + run.num_symbols},
                        {run.steps, run.steps + run.num_steps}});
    }
    return copies;
  }
};

TEST_F(RuntimeProfile, NothingIsTimedUnlessAsked) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_FALSE(IsProfiling());
  EXPECT_EQ(Driver().events_made, 0);
  const TensordRunTimes* runs = nullptr;
  size_t count = 1;
  uint64_t dropped = 1;
  EXPECT_EQ(tensord_profile_take(&runs, &count, &dropped), TENSORD_INVALID);
  EXPECT_THAT(tensord_last_error(), HasSubstr("not being profiled"));
  EXPECT_EQ(count, 0u);
  // Neither is what ran before the begin, nor what runs behind the end.
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  EXPECT_EQ(tensord_profile_begin(), TENSORD_INVALID);
  EXPECT_THAT(Take(), SizeIs(0));
  tensord_profile_end();
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  EXPECT_EQ(Driver().events_made, 0);
}

TEST_F(RuntimeProfile, StepsAreTimedInTheirOrderByPairsOfEvents) {
  TensordProgram* first = Load(Parse(Plan()));
  TensordProgram* second = Load(Parse(Plan()));
  EXPECT_NE(tensord_program_number(first), tensord_program_number(second));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  const uint64_t before = HostNanoseconds();
  for (TensordProgram* program : {first, second, first}) {
    ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
  }
  const uint64_t after = HostNanoseconds();
  const auto runs = Take();
  ASSERT_THAT(runs, SizeIs(3));
  EXPECT_EQ(runs[0].program, tensord_program_number(first));
  EXPECT_EQ(runs[1].program, tensord_program_number(second));
  EXPECT_EQ(runs[2].program, tensord_program_number(first));
  uint64_t last = before;
  for (const auto& run : runs) {
    EXPECT_EQ(run.device, 0);
    EXPECT_LE(last, run.begin);
    EXPECT_LE(run.begin, run.end);
    last = run.end;
    // The fake device takes a microsecond for each launch and each event.
    ASSERT_THAT(run.steps, SizeIs(2));
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(run.steps[i].kind, TENSORD_STEP_LAUNCH);
      EXPECT_EQ(run.steps[i].number, i);
      EXPECT_EQ(run.steps[i].begin, i * 3000u);
      EXPECT_EQ(run.steps[i].nanoseconds, 2000u);
    }
  }
  EXPECT_LE(last, after);
  // Read clocks leave their events to the next, and the end of the profile ends them.
  EXPECT_EQ(Driver().events_made, 12);
  ASSERT_EQ(Run(first, {x_, y_}), TENSORD_OK);
  EXPECT_THAT(Take(), SizeIs(1));
  EXPECT_EQ(Driver().events_made, 12);
  EXPECT_THAT(Take(), SizeIs(0));
  tensord_profile_end();
  EXPECT_EQ(Driver().live_events, 0);
}

TEST_F(RuntimeProfile, RunsThatNobodyTakesLeaveNoEvents) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(Driver().live_events, 4);
  tensord_profile_end();
  EXPECT_EQ(Driver().live_events, 0);
}

TEST_F(RuntimeProfile, ADeviceWithoutATimeFailsNoRun) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  for (const char* function : {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime",
                               "cuEventSynchronize", "cuStreamIsCapturing"}) {
    Driver().failures[function] = 2;
    ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << function << tensord_last_error();
    EXPECT_THAT(result_, ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
    EXPECT_THAT(Take(1), SizeIs(0)) << function;
    Driver().failures.clear();
  }
  // What is captured as a CUDA graph has no times, and is not to have events.
  const int made = Driver().events_made;
  Driver().capturing = true;
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  EXPECT_THAT(Take(), SizeIs(0));
  EXPECT_EQ(Driver().events_made, made);
}

TEST_F(RuntimeProfile, ARunThatFailsIsNoPartOfIt) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  Driver().failures["cuLaunchKernelEx"] = 700;
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OPERATOR);
  Driver().failures.clear();
  EXPECT_THAT(Take(), SizeIs(0));
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK);
  EXPECT_THAT(Take(), SizeIs(1));
}

TEST_F(RuntimeProfile, RunsOfOtherThreadsAreParts) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  std::thread([&] {
    SetDevice(-1);
    EXPECT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  }).join();
  SetDevice(-1);  // who takes it need have no context
  EXPECT_THAT(Take(), SizeIs(1));
  EXPECT_EQ(GetDevice(), -1);
  tensord_profile_end();
  EXPECT_EQ(Driver().live_events, 0);
  SetDevice(0);
}

TEST_F(RuntimeProfile, AChildOfAForkIsNotProfiled) {
  TensordProgram* program = Load(Parse(Plan()));
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  ASSERT_EQ(Run(program, {x_, y_}), TENSORD_OK) << tensord_last_error();
  const pid_t child = fork();
  if (child == 0) {
    const TensordRunTimes* runs = nullptr;
    size_t count = 0;
    uint64_t dropped = 0;
    const bool is_off = !IsProfiling() &&
                        tensord_profile_take(&runs, &count, &dropped) == TENSORD_INVALID &&
                        tensord_profile_begin() == TENSORD_OK;
    tensord_profile_end();
    _exit(is_off ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(Take(), SizeIs(1));  // the parent's
}

TEST_F(RuntimeProfile, RunsWithoutRoomAreCounted) {
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  for (int i = 0; i < 3; ++i) {
    RunRecord record;
    record.steps.resize(kMostProfiledSteps / 2);
    auto clock = std::make_unique<HostClock>();
    for (size_t step = 0; step < record.steps.size(); ++step) {
      clock->Begin();
      clock->End();
    }
    record.clock = std::move(clock);
    AddRun(std::move(record));
  }
  EXPECT_EQ(tensord_profile_kept(), kMostProfiledSteps);
  EXPECT_THAT(Take(1), SizeIs(2));
  EXPECT_EQ(tensord_profile_kept(), 0u);
  EXPECT_THAT(Take(), SizeIs(0));
}

}  // namespace
}  // namespace tensord::runtime
