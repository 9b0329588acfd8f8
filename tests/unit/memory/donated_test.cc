// SPDX-License-Identifier: Apache-2.0
// Results in the memory of inputs that nobody else has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/plan_memory.h"
#include "compiler/memory/verify_memory.h"
#include "compiler/pipeline.h"
#include "compiler/plan/emit_plan.h"
#include "compiler/plan/verify_plan.h"
#include "tests/unit/memory/h100.h"
#include "tests/unit/memory/planned_peak.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace donated_test {

constexpr int kRows = 4096, kVocabulary = 16384, kWidth = 256;
constexpr int64_t kMiB = 1 << 20;

// What is made of the logits' gradient: those that it goes to, and the logits.
using More = std::function<void(GraphBuilder& g, Ref gradient, Ref product, Ref logits)>;
void Nothing(GraphBuilder&, Ref, Ref, Ref) {}

// sigmoid(logits) @ head, and its transpose @ x; in tiles of `rows`.
v1::CompileJob Backward(GraphBuilder& g, int rows = kRows, const More& more = Nothing) {
  const Ref logits = g.Input({rows, kVocabulary}, kHalf);
  const Ref head = g.Input({kVocabulary, kWidth}, kHalf), x = g.Input({rows, kWidth}, kHalf);
  g.graph().mutable_inputs(1)->set_is_parameter(true);
  const Ref gradient = g.Node("aten::sigmoid", {logits}, g.Meta({rows, kVocabulary}, kHalf));
  const Ref product = g.Node("aten::mm", {gradient, head}, g.Meta({rows, kWidth}, kHalf));
  g.Output(product);
  g.Output(g.Node("aten::mm", {Transposed(g, gradient, rows, kVocabulary), x},
                  g.Meta({kVocabulary, kWidth}, kHalf)));
  more(g, gradient, product, logits);
  return JobForH100(g);
}

// Compiled where the call may overwrite these inputs.
struct Planned : compiler::CompileState {
  Planned(v1::CompileJob of, const std::vector<int>& donated) : own_job(std::move(of)) {
    for (int input : donated) own_job.mutable_graph()->mutable_inputs(input)->set_is_donated(true);
    job = &own_job;
    const absl::Status status = compiler::RunPipeline(*this);
    EXPECT_TRUE(status.ok()) << status;
  }

  v1::CompileJob own_job;

  std::string MemoryError() const {
    return std::string(
        compiler::VerifyMemory(program, schedule, compiler::LaunchesOf(kernels), memory).message());
  }
  std::string PlanError() const { return std::string(compiler::VerifyPlan(result).message()); }
};

// The inputs whose memory is taken.
std::vector<uint32_t> Donors(const v1::CompileJob& job, const std::vector<int>& donated = {0}) {
  const Planned planned(job, donated);
  EXPECT_EQ(planned.MemoryError(), "");
  EXPECT_EQ(planned.PlanError(), "");
  std::vector<uint32_t> donors;
  for (const v1::Buffer& buffer : planned.result.artifact().buffers()) {
    if (buffer.has_donor()) donors.push_back(buffer.donor());
  }
  return donors;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DonatedTest, TheGradientIsInThePlaceOfTheLogits) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const v1::CompileJob job = Backward(g);
  EXPECT_THAT(Donors(job), ElementsAre(0));
  constexpr int64_t kLogits = int64_t{2} * kRows * kVocabulary;
  const Planned planned(job, {0});
  EXPECT_LE(PlannedMemory(planned.result.artifact()).peak(),
            kLogits + 2 * (2 * kRows * kWidth) + 2 * kVocabulary * kWidth + kMiB);
}

// The logits of an odd vocabulary, by rows of whole 16 bytes as its products want them
// (tensord::padded_rows): the gradient is written between the ends of rows.
TEST(DonatedTest, TheGradientOfAnOddVocabularyIsInThePlaceOfThePaddedLogits) {
  constexpr int kOdd = kVocabulary - 6;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref padded = g.Input({kRows, kVocabulary}, kHalf);
  const Ref head = g.Input({kOdd, kWidth}, kHalf), x = g.Input({kRows, kWidth}, kHalf);
  g.graph().mutable_inputs(1)->set_is_parameter(true);
  const Ref logits = g.Node("aten::slice.Tensor", {padded, 1, 0, kOdd, 1},
                            g.Meta({kRows, kOdd}, kHalf, {kVocabulary, 1}));
  const Ref gradient = g.Node("aten::sigmoid", {logits}, g.Meta({kRows, kOdd}, kHalf));
  g.Output(g.Node("aten::mm", {gradient, head}, g.Meta({kRows, kWidth}, kHalf)));
  g.Output(
      g.Node("aten::mm", {Transposed(g, gradient, kRows, kOdd), x}, g.Meta({kOdd, kWidth}, kHalf)));
  g.Output(g.Node("aten::sum.dim_IntList", {gradient, Ints({0}), false, nullptr},
                  g.Meta({kOdd}, kHalf)));
  EXPECT_THAT(Donors(JobForH100(g)), ElementsAre(0));
}

TEST(DonatedTest, AlsoWhereBackwardIsCaptured) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  v1::CompileJob job = Backward(g);
  job.mutable_options()->set_mode(v1::MODE_REDUCE_OVERHEAD);
  EXPECT_THAT(Donors(job), ElementsAre(0));
}

TEST(DonatedTest, NotOfWhatOthersMayRead) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  EXPECT_THAT(Donors(Backward(g), {}), IsEmpty());
}

TEST(DonatedTest, NotOfWhatIsReadBehindIt) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  EXPECT_THAT(
      Donors(Backward(g, kRows,
                      [](GraphBuilder& g, Ref, Ref product, Ref logits) {
                        g.Output(g.Node("aten::mm",
                                        {Transposed(g, logits, kRows, kVocabulary), product},
                                        g.Meta({kVocabulary, kWidth}, kHalf)));
                      })),
      IsEmpty());
}

TEST(DonatedTest, NotOfWhatIsReturned) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA), h(v1::DEVICE_TYPE_CUDA);
  EXPECT_THAT(Donors(Backward(g, kRows,
                              [](GraphBuilder& g, Ref, Ref, Ref logits) {
                                g.Output(Transposed(g, logits, kRows, kVocabulary));
                              })),
              IsEmpty());
  // Such a gradient is a result, with memory of its own.
  EXPECT_THAT(Donors(Backward(h, kRows,
                              [](GraphBuilder& g, Ref gradient, Ref, Ref) { g.Output(gradient); })),
              IsEmpty());
}

TEST(DonatedTest, NotWhereItSavesTooLittle) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  EXPECT_THAT(Donors(Backward(g, 32)), IsEmpty());
}

TEST(DonatedTest, NotWhereElementsAreOfAnotherSize) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref logits = g.Input({kRows, kVocabulary});
  const Ref head = g.Input({kVocabulary, kWidth}, kHalf);
  const Ref half =
      g.Node("aten::_to_copy", {logits, kHalf, nullptr, nullptr, nullptr, false, nullptr},
             g.Meta({kRows, kVocabulary}, kHalf));
  g.Output(g.Node("aten::mm", {half, head}, g.Meta({kRows, kWidth}, kHalf)));
  EXPECT_THAT(Donors(JobForH100(g)), IsEmpty());
}

// The other input is read by the second product, when the gradient has long been written.
TEST(DonatedTest, TheVerifiersFindWhatIsReadBehindIt) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const v1::CompileJob job = Backward(g);
  Planned planned(job, {0});
  const auto in_plan = [&](uint32_t donor, bool is_donated = true) {
    v1::Artifact& artifact = *planned.result.mutable_artifact();
    if (donor < 3) artifact.mutable_inputs(static_cast<int>(donor))->set_is_donated(is_donated);
    for (v1::Buffer& buffer : *artifact.mutable_buffers()) {
      if (buffer.has_donor()) buffer.set_donor(donor);
    }
    return planned.PlanError();
  };
  EXPECT_EQ(in_plan(0), "");
  for (compiler::MemoryBlock& block : planned.memory.blocks) {
    if (block.donor == 0) block.donor = 2;
  }
  EXPECT_THAT(planned.MemoryError(), HasSubstr("writes over input 2, which is read behind it"));
  EXPECT_THAT(in_plan(2), HasSubstr("which is freed"));
  EXPECT_THAT(in_plan(2, /*is_donated=*/false), HasSubstr("has the memory of no input"));
  EXPECT_THAT(in_plan(3), HasSubstr("has the memory of no input"));
}

}  // namespace donated_test
}  // namespace tensord::testing
