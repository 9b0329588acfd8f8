// SPDX-License-Identifier: Apache-2.0
// Where buffers and the scratch of CUDA launches lie, of schedules made by hand.
#include "compiler/memory/plan_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/memory/verify_memory.h"
#include "compiler/plan/emit_plan.h"
#include "tests/unit/memory/planned_peak.h"

namespace tensord::testing {
namespace plan_memory_test {

using compiler::BufferId;
using compiler::BufferKind;
using compiler::CudaGeometry;
using compiler::Expr;
using compiler::Graph;
using compiler::GraphInput;
using compiler::Kernel;
using compiler::KernelFunction;
using compiler::KernelSource;
using compiler::MemoryPlan;
using compiler::Place;
using compiler::Program;
using compiler::Schedule;
using compiler::ScheduledStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;

// Bytes in [begin, end) of a block, or of what is there during the whole call, at some steps.
struct Held {
  int first, last;
  int64_t begin, end;
  int block;
};

// Launches that do nothing but touch buffers of bytes.
class Call {
 public:
  BufferId Computed(const Expr& bytes) { return AddBuffer(BufferKind::kComputed, bytes, -1); }
  BufferId Result(const Expr& bytes) {
    const BufferId id = Computed(bytes);
    program.buffers[id].returned = true;
    return id;
  }
  BufferId Input(const Expr& bytes) {
    GraphInput& input = graph.inputs.emplace_back();
    input.is_tensor = true;
    input.tensor = {.dtype = v1::DTYPE_UINT8, .device = v1::DEVICE_TYPE_CUDA};
    input.tensor.sizes = {bytes};
    input.tensor.strides = {Expr(1)};
    return AddBuffer(BufferKind::kInput, bytes, static_cast<int>(graph.inputs.size()) - 1);
  }

  // A kernel of as many functions; the number of its step.
  int Launch(const std::vector<BufferId>& touched, const Expr& scratch = 0, int functions = 1) {
    schedule.steps.push_back({Kernel{}});
    KernelSource& kernel = kernels.emplace_back();
    kernel.source = "kernel " + std::to_string(kernels.size());
    for (int i = 0; i < functions; ++i) {
      kernel.functions.push_back({"f" + std::to_string(i), CudaGeometry{.grid = 1, .block = 32}});
    }
    kernel.launch.buffers = touched;
    for (BufferId id : touched) {
      if (program.buffers[id].kind != BufferKind::kInput) kernel.launch.written.push_back(id);
    }
    kernel.launch.scratch_bytes = scratch;
    kernel.launch.scratch_of_launch = true;
    return static_cast<int>(kernels.size()) - 1;
  }

  // Ensures that no two share bytes at a time, as the compiler verifies it itself.
  void Plan(bool segments = false) {
    plan = PlanMemory(program, schedule, LaunchesOf(kernels),
                      {.segments = segments, .releases_inputs = true});
    EXPECT_EQ(Fault(plan), "");
  }

  // What the verifier says of it; nothing where it is sound.
  std::string Fault(const MemoryPlan& of) const {
    return std::string(VerifyMemory(program, schedule, LaunchesOf(kernels), of).message());
  }

  Expr OffsetOf(BufferId id) const { return plan.places[id].offset; }
  Expr ScratchAt(int step) const { return plan.scratch[step].offset; }
  int64_t workspace() const { return sym::Hint(plan.workspace_bytes); }

  v1::Artifact Emit() const {
    v1::Target target;
    target.mutable_cuda()->set_sm(90);
    v1::CompileResult result;
    EmitPlan(graph, program, schedule, kernels, plan, target, &result);
    return result.artifact();
  }

  // All that lies in the workspace where every symbol has this value.
  std::vector<Held> Holdings(int64_t symbol) const {
    const auto value = [&](const Expr& e) {
      return sym::Evaluate(e, [&](const sym::Atom&) { return symbol; });
    };
    std::vector<Held> all;
    const auto add = [&](int first, int last, const Place& place, const Expr& bytes) {
      const int64_t begin = value(place.offset), end = begin + value(bytes);
      EXPECT_EQ(begin % 64, 0);
      EXPECT_LE(end,
                place.block < 0 ? value(plan.workspace_bytes) : plan.blocks[place.block].bytes);
      all.push_back({first, last, begin, end, place.block});
    };
    for (size_t id = 0; id < program.buffers.size(); ++id) {
      if (plan.places[id].kind != Place::kWorkspace) continue;
      int first = -1, last = -1;
      for (int step = 0; step < static_cast<int>(kernels.size()); ++step) {
        for (BufferId touched : kernels[step].launch.buffers) {
          if (touched != static_cast<BufferId>(id)) continue;
          if (first < 0) first = step;
          last = step;
        }
      }
      add(first, last, plan.places[id], program.buffers[id].sizes[0]);
    }
    for (int step = 0; step < static_cast<int>(kernels.size()); ++step) {
      const bool has = !kernels[step].launch.scratch_bytes.Is(0);
      EXPECT_EQ(plan.scratch[step].kind, has ? Place::kWorkspace : Place::kNone);
      if (has) add(step, step, plan.scratch[step], kernels[step].launch.scratch_bytes);
    }
    return all;
  }

  void ExpectApart(int64_t symbol = 0) const {
    const std::vector<Held> all = Holdings(symbol);
    for (const Held& a : all) {
      for (const Held& b : all) {
        if (&a == &b || a.block != b.block || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(a.end <= b.begin || b.end <= a.begin)
            << "steps " << a.first << " to " << a.last << " and " << b.first << " to " << b.last;
      }
    }
  }

  Graph graph;
  Program program;
  Schedule schedule;
  std::vector<KernelSource> kernels;
  MemoryPlan plan;

 private:
  BufferId AddBuffer(BufferKind kind, const Expr& bytes, int number) {
    program.buffers.push_back({.kind = kind,
                               .number = number,
                               .dtype = v1::DTYPE_UINT8,
                               .device = v1::DEVICE_TYPE_CUDA,
                               .sizes = {bytes},
                               .strides = {Expr(1)}});
    return static_cast<BufferId>(program.buffers.size()) - 1;
  }
};

// Two large buffers, and between them one of half their size that lives on beside the second: by
// size it is placed behind both.
TEST(PackingTest, ALongLifeBeforeLargerShortOnes) {
  constexpr int64_t kUnit = 4096;
  Call call;
  const BufferId before = call.Computed(4 * kUnit), behind = call.Computed(4 * kUnit);
  const BufferId residual = call.Computed(2 * kUnit);
  const BufferId a = call.Computed(kUnit), b = call.Computed(kUnit), c = call.Computed(kUnit);
  call.Launch({a});
  call.Launch({a, before});
  call.Launch({before, b});
  call.Launch({a, b, residual});
  call.Launch({behind});
  call.Launch({behind, c});
  call.Launch({c});
  call.Launch({residual});
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.workspace(), 7 * kUnit);  // as much as is there at a time
}

// Where largest first needs less, that stays.
TEST(PackingTest, TheLargestFirst) {
  constexpr int64_t kUnit = 4096;
  Call call;
  const BufferId lasting = call.Computed(4 * kUnit);
  const BufferId next = call.Computed(5 * kUnit), last = call.Computed(6 * kUnit);
  for (int i = 0; i < 4; ++i) call.Launch({lasting});
  call.Launch({lasting, next});
  call.Launch({next, last});
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.workspace(), 11 * kUnit);
}

TEST(ScratchTest, LiesInTheMemoryOfADeadBuffer) {
  Call call;
  const BufferId x = call.Computed(4096), y = call.Computed(4096);
  call.Launch({x});
  call.Launch({x, y});
  const int step = call.Launch({y}, 4000);  // x is dead
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.ScratchAt(step), call.OffsetOf(x));
  EXPECT_EQ(call.workspace(), 2 * 4096);
}

TEST(ScratchTest, LiesInTheMemoryOfABufferYetToCome) {
  Call call;
  const BufferId x = call.Computed(4096), y = call.Computed(8192);
  const int step = call.Launch({x}, 6000);
  call.Launch({x, y});
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.ScratchAt(step), call.OffsetOf(y));
  EXPECT_EQ(call.workspace(), 4096 + 8192);
}

// An operand that dies in the launch, a result that comes to be in it, and what lives on beside.
TEST(ScratchTest, SharesNothingWithWhatLivesDuringItsStep) {
  Call call;
  const BufferId operand = call.Computed(1024), result = call.Computed(1024);
  const BufferId beside = call.Computed(1024);
  call.Launch({operand, beside});
  const int step = call.Launch({operand, result}, 1024);
  call.Launch({result, beside});
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.workspace(), 4 * 1024);
  // Scratch is never in an operand's or a result's place.
  for (BufferId id : {operand, result, beside}) {
    MemoryPlan wrong = call.plan;
    wrong.scratch[step].offset = call.OffsetOf(id);
    EXPECT_THAT(call.Fault(wrong), HasSubstr("shares memory with"));
  }
  MemoryPlan wrong = call.plan;
  wrong.scratch[step].offset += 64;
  EXPECT_THAT(call.Fault(wrong), HasSubstr("the scratch of step 1 has a place outside its memory"));
  wrong.scratch[step] = {};
  EXPECT_THAT(call.Fault(wrong), HasSubstr("the scratch of step 1 has no place"));
}

TEST(ScratchTest, LaunchesUseTheSameBytes) {
  Call call;
  const BufferId x = call.Computed(512);
  const int a = call.Launch({x}, 3000), b = call.Launch({x}, 9000), c = call.Launch({x}, 3000);
  call.Plan();
  call.ExpectApart();
  EXPECT_EQ(call.ScratchAt(a), call.ScratchAt(b));
  EXPECT_EQ(call.ScratchAt(a), call.ScratchAt(c));
  EXPECT_EQ(call.workspace(), 512 + 9024);  // 9000 in whole alignments
}

// The functions of one kernel share scratch; those of others have an offset of their own.
TEST(ScratchTest, EveryLaunchIsGivenItsOffset) {
  Call call;
  const BufferId x = call.Computed(4096), y = call.Computed(4096);
  call.Launch({x}, 2048, /*functions=*/2);
  call.Launch({x, y});
  call.Launch({y}, 2048);
  call.Plan();
  const v1::Artifact artifact = call.Emit();
  ASSERT_EQ(artifact.steps_size(), 4);
  std::vector<int64_t> offsets;
  for (const v1::Step& step : artifact.steps()) {
    const v1::CudaLaunch& cuda = step.launch().cuda();
    offsets.push_back(cuda.has_scratch() ? cuda.scratch().constant() : -1);
  }
  EXPECT_THAT(offsets, ElementsAre(4096, 4096, -1, 0));
  EXPECT_EQ(artifact.workspace_bytes().constant(), 2 * 4096);
}

TEST(ScratchTest, OnACpuTheRuntimeHasIt) {
  Call call;
  const BufferId x = call.Computed(512);
  call.Launch({x}, 4096);
  call.kernels[0].functions[0].cuda.reset();
  call.kernels[0].launch.scratch_of_launch = false;
  call.Plan();
  EXPECT_EQ(call.plan.scratch[0].kind, Place::kNone);
  EXPECT_EQ(call.workspace(), 512);
  const v1::KernelLaunch launch = call.Emit().steps(0).launch();
  EXPECT_EQ(launch.scratch_bytes_per_thread().constant(), 4096);
  EXPECT_EQ(launch.buffers_size(), 1);
}

// ---- Symbolic sizes

TEST(SymbolicScratchTest, LiesInASlotThatIsLargeEnoughWhateverTheSymbolIs) {
  const Expr s = Expr::Size(0, 2, 16);
  Call call;
  const BufferId x = call.Computed(s * 4096), y = call.Computed(s * 4096);
  call.Launch({x});
  call.Launch({x, y});
  const int step = call.Launch({y}, s * 1024);
  call.Plan();
  for (int64_t value : {2, 3, 1000}) call.ExpectApart(value);
  EXPECT_EQ(call.ScratchAt(step), call.OffsetOf(x));
  EXPECT_EQ(call.plan.workspace_bytes, s * 8192);
}

// As sums over rows have it: one copy for each block, of which there are so many at most.
Expr Copies(const Expr& rows, int most, int rows_of_block, int bytes) {
  return sym::Min(Expr(most), sym::CeilDiv(rows, Expr(rows_of_block))) * bytes;
}

TEST(SymbolicScratchTest, CopiesOfBlocksLieInASlotOfRows) {
  const Expr s = Expr::Size(0, 2, 16), t = Expr::Size(1, 2, 1024);
  struct Case {
    Expr row;  // bytes of x, for each of s * t
    bool fits;
  };
  // 4096 bytes for each four rows begun: at the least 4 rows, 1024 for each are just too few when
  // there are 5.
  for (const auto& [row, fits] : {Case{2048, true}, Case{1024, false}, Case{512, false}}) {
    Call call;
    const BufferId x = call.Computed(s * t * row), y = call.Computed(s * t * row);
    call.Launch({x});
    call.Launch({x, y});
    const int step = call.Launch({y}, Copies(s * t, 396, 4, 4096));
    call.Plan();
    for (int64_t value : {2, 3, 4, 30, 1000}) call.ExpectApart(value);
    EXPECT_EQ(call.ScratchAt(step) == call.OffsetOf(x), fits);
  }
}

TEST(SymbolicScratchTest, WhatNoSlotHasRoomForSharesTheEnd) {
  const Expr s = Expr::Size(0, 2, 16);
  Call call;
  const BufferId x = call.Computed(s * 256), y = call.Computed(s * 256), z = call.Computed(512);
  call.Launch({x, z}, s * s * 128);
  call.Launch({x, y, z}, s * 512);
  call.Launch({y, z}, 65536);
  call.Plan();
  for (int64_t value : {2, 16, 1000}) {
    call.ExpectApart(value);
    const auto bytes = [&](const Expr& e) {
      return sym::Evaluate(e, [&](const sym::Atom&) { return value; });
    };
    EXPECT_LE(bytes(call.plan.workspace_bytes),
              512 + 2 * 256 * value + std::max({value * value * 128, value * 512, int64_t{65536}}));
  }
}

TEST(SymbolicScratchTest, OfConstantSizeBesideSymbolicBuffers) {
  const Expr s = Expr::Size(0, 2, 16);
  Call call;
  const BufferId x = call.Computed(s * 256), y = call.Computed(8192);
  const int step = call.Launch({x}, 4096);
  call.Launch({x, y});
  call.Plan();
  for (int64_t value : {2, 1000}) call.ExpectApart(value);
  EXPECT_EQ(call.ScratchAt(step), call.OffsetOf(y));
  EXPECT_EQ(call.plan.workspace_bytes, s * 256 + 8192);
}

// ---- Blocks of segments

// A call whose peak is its second step, where 300 MiB are there already; then they are gone. At its
// first step it needs `begin` of its own and scratch, at the last two `end`, and `always` all
// along.
struct Peaks {
  Call call;
  BufferId begin, end, always;
  int first, peak, last;

  Peaks(int64_t begin_bytes, int64_t first_scratch, int64_t peak_scratch, int64_t last_scratch) {
    const BufferId saved = call.Input(100 * kMiB), result = call.Result(200 * kMiB);
    begin = call.Computed(begin_bytes);
    end = call.Computed(20 * kMiB);
    always = call.Computed(kMiB);
    first = call.Launch({begin, saved, always}, first_scratch);
    const BufferId large = call.Result(300 * kMiB);
    call.Launch({begin, always});
    peak = call.Launch({result, large, saved, always}, peak_scratch);
    last = call.Launch({end, always}, last_scratch);
    call.Launch({end, always});
    call.Plan(/*segments=*/true);
    call.ExpectApart();
  }
  int BlockOfScratch(int step) const { return call.plan.scratch[step].block; }
  int BlockOf(BufferId id) const { return call.plan.places[id].block; }
};

TEST(BlockScratchTest, WithoutScratchTheBeginningHasABlock) {
  const Peaks p(100 * kMiB, 0, 0, 0);
  EXPECT_GE(p.BlockOf(p.begin), 0);
  EXPECT_EQ(p.BlockOf(p.always), -1);
  EXPECT_EQ(p.call.workspace(), kMiB);
}

// While a block is there and has nothing else to do, or may grow without raising the peak.
TEST(BlockScratchTest, LiesInABlockWhereTheWorkspaceWouldGrow) {
  const Peaks p(100 * kMiB, 2 * kMiB, 0, 0);
  EXPECT_EQ(p.BlockOfScratch(p.first), p.BlockOf(p.begin));
  EXPECT_GE(p.BlockOfScratch(p.first), 0);
  EXPECT_EQ(p.call.workspace(), kMiB);
  const v1::Artifact artifact = p.call.Emit();
  const v1::KernelLaunch& launch = artifact.steps(p.first).launch();
  // Its address is behind those of the kernel's buffers, where it is also without a block.
  ASSERT_EQ(launch.buffers_size(), 4);
  EXPECT_FALSE(launch.cuda().has_scratch());
  EXPECT_EQ(launch.written(launch.written_size() - 1), launch.buffers(3));
  const v1::Buffer& scratch = artifact.buffers(launch.buffers(3));
  EXPECT_EQ(scratch.meta().sizes(0).constant(), 2 * kMiB);
  EXPECT_EQ(scratch.meta().storage_offset().constant(), 100 * kMiB);
  const v1::Buffer& block = artifact.buffers(scratch.view_of());
  EXPECT_TRUE(block.standalone());
  EXPECT_EQ(block.meta().sizes(0).constant(), 102 * kMiB);
}

TEST(BlockScratchTest, LiesInTheWorkspaceWhereThatHasRoom) {
  Call call;
  const BufferId saved = call.Input(100 * kMiB), result = call.Result(400 * kMiB);
  const BufferId begin = call.Computed(100 * kMiB), next = call.Computed(4 * kMiB);
  const BufferId always = call.Computed(kMiB);
  const int first = call.Launch({begin, saved, always}, 2 * kMiB);  // `next` is not there yet
  call.Launch({begin, next, always});
  call.Launch({result, saved, next, always});
  call.Plan(/*segments=*/true);
  call.ExpectApart();
  EXPECT_GE(call.plan.places[begin].block, 0);
  EXPECT_EQ(call.plan.scratch[first].block, -1);
  EXPECT_EQ(call.ScratchAt(first), call.OffsetOf(next));
  EXPECT_EQ(call.workspace(), 5 * kMiB);
  ASSERT_EQ(call.plan.blocks.size(), 1);
  EXPECT_EQ(call.plan.blocks[0].bytes, 100 * kMiB);
}

// Large scratch away from the peak: no workspace is held for it at the peak.
TEST(BlockScratchTest, NoWorkspaceIsHeldForIt) {
  const int64_t least = PlannedMemory(Peaks(100 * kMiB, 0, 0, 0).call.Emit()).peak();
  const Peaks early(100 * kMiB, 30 * kMiB, 0, 0), late(100 * kMiB, 0, 0, 30 * kMiB);
  EXPECT_EQ(PlannedMemory(early.call.Emit()).peak(), least);
  EXPECT_EQ(early.call.workspace(), kMiB);
  EXPECT_LE(PlannedMemory(late.call.Emit()).peak(), least + 30 * kMiB);
  const Peaks peak(100 * kMiB, 0, 2 * kMiB, 0);
  EXPECT_EQ(PlannedMemory(peak.call.Emit()).peak(), least + 2 * kMiB);
}

// A block only for scratch is an allocation more, for which a few bytes are too little.
TEST(BlockScratchTest, HasABlockAloneIfItIsLarge) {
  for (const int64_t bytes : {kMiB / 2, 30 * kMiB}) {
    Call call;
    const BufferId saved = call.Input(200 * kMiB), result = call.Result(200 * kMiB);
    const BufferId begin = call.Computed(100 * kMiB), always = call.Computed(kMiB);
    call.Launch({begin, saved, always});
    call.Launch({begin, saved, always});
    call.Launch({result, saved, always});
    const int last = call.Launch({always}, bytes);
    call.Plan(/*segments=*/true);
    call.ExpectApart();
    const bool large = bytes > kMiB;
    EXPECT_EQ(call.plan.scratch[last].block >= 0, large);
    EXPECT_NE(call.plan.scratch[last].block, call.plan.places[begin].block);
    EXPECT_EQ(call.workspace(), kMiB + (large ? 0 : bytes));
    EXPECT_EQ(call.plan.blocks.size(), large ? 2 : 1);
    EXPECT_EQ(PlannedMemory(call.Emit()).peak(), 401 * kMiB + (large ? 0 : bytes));
  }
}

// ---- Rules

TEST(MemoryRulesTest, WhatIsLentForGoodHasNoSegments) {
  v1::Target cuda, cpu;
  cuda.mutable_cuda();
  cpu.mutable_cpu();
  v1::CompileOptions options;
  EXPECT_TRUE(compiler::RulesOf(cuda, options, {}).segments);
  EXPECT_FALSE(compiler::RulesOf(cpu, options, {}).segments);
  options.set_mode(v1::MODE_REDUCE_OVERHEAD);
  EXPECT_FALSE(compiler::RulesOf(cuda, options, {}).segments);
  options.set_releases_inputs(true);  // backward has its blocks for a part of the call
  EXPECT_TRUE(compiler::RulesOf(cuda, options, {}).segments);
}

// ---- Anything

TEST(ScratchTest, RandomCalls) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const Expr s = Expr::Size(0, 2, 24);
  for (int round = 0; round < 300; ++round) {
    const bool symbolic = pick(3) == 0, segments = pick(2) == 0;
    const auto size = [&](int64_t unit) {
      const int64_t bytes = unit * (1 + pick(50));
      if (!symbolic || pick(2) == 0) return Expr(bytes);
      const int64_t row = bytes / 16 + 1;  // often of whole alignments, as rows of models are
      return s * (pick(3) > 0 ? (row + 63) / 64 * 64 : row);
    };
    Call call;
    const int steps = 2 + pick(12);
    std::vector<std::vector<BufferId>> touched(steps);
    for (int i = pick(12); i >= 0; --i) {
      const int64_t unit = pick(2) == 0 ? kMiB : 1000;
      const BufferId id = pick(4) == 0 ? call.Result(unit) : call.Computed(size(unit));
      const int first = pick(steps), last = first + pick(steps - first);
      touched[first].push_back(id);
      if (last != first) touched[last].push_back(id);
    }
    Expr most(0);
    for (const auto& ids : touched) {
      Expr scratch = pick(2) == 0 ? size(pick(2) == 0 ? kMiB : 1000) : Expr(0);
      if (symbolic && pick(3) == 0) scratch = Copies(s * 3, 1 + pick(40), 4, 64 << pick(12));
      call.Launch(ids, scratch);
      most = sym::Max(most, scratch);
    }
    call.Plan(segments);
    const std::vector<int64_t> values = {2, 3, 24, 77};
    for (int64_t value : values) call.ExpectApart(value);
    if (segments) continue;
    // Never more than a place of its own for the largest.
    Call without = call;
    for (KernelSource& kernel : without.kernels) kernel.launch.scratch_bytes = Expr(0);
    without.Plan();
    for (int64_t value : values) {
      const auto bytes = [&](const Expr& e) {
        return sym::Evaluate(e, [&](const sym::Atom&) { return value; });
      };
      EXPECT_LE(bytes(call.plan.workspace_bytes),
                bytes(without.plan.workspace_bytes) + bytes(most) + 63);
    }
  }
}

}  // namespace plan_memory_test
}  // namespace tensord::testing
