// SPDX-License-Identifier: Apache-2.0
// What calls on CUDA take at most, by their plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compile.h"
#include "compiler/memory/segments.h"
#include "tests/unit/memory/h100.h"
#include "tests/unit/memory/planned_peak.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace memory_test {

using compiler::FindSegments;
using compiler::SegmentOf;
using compiler::Tenant;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

// ---- Segments

Tenant Of(int first, int last, int64_t mib) { return {{first, last}, mib * kMiB}; }
std::vector<int64_t> Others(std::vector<int64_t> mib) {
  for (int64_t& bytes : mib) bytes *= kMiB;
  return mib;
}

TEST(SegmentsTest, ALargeBufferWhileTheRestIsStillThere) {
  const std::vector<Tenant> tenants = {Of(0, 1, 100), Of(2, 3, 20), Of(4, 5, 20)};
  EXPECT_THAT(FindSegments(tenants, Others({300, 290, 280, 330, 150, 100})).cuts, ElementsAre(2));
}

TEST(SegmentsTest, CutsThatPayTogether) {
  // Without the first buffer the last one is nearly as large, beside the same fullest step.
  const std::vector<Tenant> tenants = {Of(0, 1, 27), Of(2, 3, 1), Of(4, 5, 24)};
  const std::vector<int64_t> others = Others({50, 60, 220, 220, 80, 10});
  EXPECT_THAT(FindSegments(tenants, others, {.least_bytes = 4 * kMiB}).cuts, ElementsAre(2, 4));
  EXPECT_THAT(
      FindSegments(tenants, others, {.most_cuts = 1, .least_bytes = 4 * kMiB, .most_apart = 0})
          .cuts,
      IsEmpty());
}

TEST(SegmentsTest, ABlockIsThereWhileItIsNeeded) {
  // What is large at the second step is gone at the fullest one, where its segment needs nothing.
  const std::vector<Tenant> tenants = {Of(0, 1, 30), Of(4, 5, 30)};
  const std::vector<int64_t> others = Others({10, 10, 200, 10, 10, 10});
  EXPECT_THAT(FindSegments(tenants, others).cuts, ElementsAre(2));
}

TEST(SegmentsTest, ManySmallLivesThatBeginTogether) {
  std::vector<Tenant> tenants = {{{0, 1}, kMiB / 4}};
  for (int i = 0; i < 8; ++i) tenants.push_back({{4, 5}, kMiB / 2});
  EXPECT_THAT(FindSegments(tenants, Others({200, 200, 200, 200, 100, 100})).cuts, ElementsAre(4));
}

TEST(SegmentsTest, ALargeBufferThatLivesOnHasABlockOfItsOwn) {
  // In one segment with the first it keeps that one's room, in several it is there for good.
  const std::vector<Tenant> tenants = {Of(0, 3, 25), Of(0, 3, 25), Of(1, 6, 100)};
  const auto segments = FindSegments(tenants, Others({0, 0, 0, 0, 0, 0, 100, 0, 180}));
  EXPECT_THAT(segments.alone, ElementsAre(2));
  EXPECT_THAT(segments.cuts, Not(IsEmpty()));
  // What is left of it is the least there can be.
  EXPECT_THAT(FindSegments({Of(0, 2, 100)}, Others({0, 100, 0})).alone, IsEmpty());
  // Uncut, what is left would be there for good, also when the large one is.
  const std::vector<Tenant> within = {Of(5, 7, 120), Of(6, 6, 60)};
  const auto cut = FindSegments(within, Others({190, 20, 140, 140, 100, 90, 100, 160}));
  EXPECT_THAT(cut.alone, ElementsAre(0));
  EXPECT_THAT(cut.cuts, Not(IsEmpty()));
}

// Layer after layer attention's operands, what the library gives of them, then another image.
TEST(SegmentsTest, WhereEachLayerIsAsFullLargeBuffersAreAllApart) {
  constexpr int kLayers = 12;
  std::vector<Tenant> tenants = {Of(0, 4 * kLayers - 1, 12)};
  std::vector<int64_t> others;
  for (int layer = 0; layer < kLayers; ++layer) {
    const int step = 4 * layer;
    tenants.push_back(Of(step, step + 1, 18));
    tenants.push_back(Of(step + 2, step + 3, 24));
    tenants.push_back(Of(step, step + 3, 1));
    others.insert(others.end(), {0, 6 * kMiB, 0, 0});
  }
  const auto segments = FindSegments(tenants, others);
  EXPECT_THAT(segments.cuts, IsEmpty());
  // What is small shares the workspace, and so does what is there all the time.
  EXPECT_EQ(segments.alone.size(), 2 * kLayers);
  for (size_t i : segments.alone) EXPECT_GE(tenants[i].bytes, 18 * kMiB);
}

// What backward is given goes with each layer: only the first ones need blocks of their own.
TEST(SegmentsTest, WhereTheFirstStepsAreFullestBuffersOfTheFirstStepsAreApart) {
  constexpr int kLayers = 24;
  std::vector<Tenant> tenants;
  std::vector<int64_t> others;
  for (int layer = 0; layer < kLayers; ++layer) {
    const int step = 3 * layer;
    tenants.push_back(Of(step, step + 1, 20));
    tenants.push_back(Of(step + 2, step + 3, 20));
    tenants.push_back(Of(step, step + 3, 4));
    const int64_t left = (kLayers - layer) * 30 * kMiB;
    others.insert(others.end(), {left, left - 16 * kMiB, left - 16 * kMiB});
  }
  others.push_back(0);
  const auto segments = FindSegments(tenants, others);
  EXPECT_THAT(segments.alone, Not(IsEmpty()));
  const auto late = [&](size_t i) { return tenants[i].life.first > 3 * kLayers / 2; };
  EXPECT_TRUE(std::none_of(segments.alone.begin(), segments.alone.end(), late));
}

// A program of thousands of steps, of which nearly every buffer is large beside the peak.
TEST(SegmentsTest, LongPrograms) {
  std::vector<Tenant> tenants;
  for (int step = 0; step + 3 < 4000; ++step) tenants.push_back(Of(step, step + 3, 16));
  const std::vector<int64_t> others(4000, 2 * kMiB);
  EXPECT_THAT(FindSegments(tenants, others).alone, IsEmpty());
}

TEST(SegmentsTest, NothingToGainNoSegments) {
  // The fullest step of the workspace is that of everything else.
  EXPECT_THAT(FindSegments({Of(0, 1, 100), Of(2, 3, 20)}, Others({300, 300, 100, 100})).cuts,
              IsEmpty());
  // What is there all the time.
  EXPECT_THAT(FindSegments({Of(0, 3, 100)}, Others({300, 300, 100, 400})).cuts, IsEmpty());
  // A few bytes.
  EXPECT_THAT(FindSegments({Of(0, 1, 1), {{2, 3}, kMiB / 4}}, Others({0, 0, 3, 3})).cuts,
              IsEmpty());
  EXPECT_THAT(FindSegments({}, {}).cuts, IsEmpty());
}

TEST(SegmentsTest, TheSegmentOfALife) {
  EXPECT_EQ(SegmentOf({0, 1}, {2, 5}), 0);
  EXPECT_EQ(SegmentOf({2, 4}, {2, 5}), 1);
  EXPECT_EQ(SegmentOf({5, 9}, {2, 5}), 2);
  EXPECT_EQ(SegmentOf({1, 2}, {2, 5}), -1);
}

// ---- Plans

v1::Artifact CompileForCuda(GraphBuilder& g) {
  auto result = compiler::Compile(JobForH100(g));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->artifact() : v1::Artifact();
}

Ref Product(GraphBuilder& g, Ref a, Ref b, int rows, int columns) {
  return g.Node("aten::mm", {a, b}, g.Meta({rows, columns}, kHalf));
}

// The backward of a vocabulary and of a chain of layers behind it: what forward saved goes layer by
// layer while the gradients come, and the logits' gradient is gone before most of them are there.
TEST(MemoryPlanTest, BackwardOfAChain) {
  constexpr int kRows = 4096, kWidth = 1024, kVocabulary = 16384, kLayers = 8;
  constexpr int64_t kActivation = int64_t{2} * kRows * kWidth, kWeight = 4 * kWidth * kWidth;
  constexpr int64_t kLogits = int64_t{2} * kRows * kVocabulary;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref logits = g.Input({kRows, kVocabulary}, kHalf);
  const Ref head = g.Input({kVocabulary, kWidth}, kHalf);
  g.graph().mutable_inputs(1)->set_is_parameter(true);
  std::vector<Ref> saved, weights;
  for (int i = 0; i < kLayers; ++i) {
    saved.push_back(g.Input({kRows, kWidth}, kHalf));
    weights.push_back(g.Input({kWidth, kWidth}, kHalf));
    g.graph().mutable_inputs(g.graph().inputs_size() - 1)->set_is_parameter(true);
  }
  const Ref dlogits = g.Node("aten::sigmoid", {logits}, g.Meta({kRows, kVocabulary}, kHalf));
  Ref gradient = Product(g, dlogits, head, kRows, kWidth);
  for (int i = kLayers - 1; i >= 0; --i) {
    const Ref dw = Product(g, Transposed(g, saved[i], kRows, kWidth), gradient, kWidth, kWidth);
    g.Output(g.Node("aten::_to_copy",
                    {dw, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr, false, nullptr},
                    g.Meta({kWidth, kWidth})));
    gradient = Product(g, gradient, weights[i], kRows, kWidth);
    gradient = g.Node("aten::mul.Tensor", {gradient, saved[i]}, g.Meta({kRows, kWidth}, kHalf));
  }
  g.Output(gradient);
  const v1::Artifact artifact = CompileForCuda(g);
  const int64_t peak = PlannedMemory(artifact).peak();
  // The logits, their gradient, what is saved and a gradient of one layer: the least there can be.
  const int64_t least = 2 * kLogits + kLayers * kActivation;
  EXPECT_GE(peak, least);
  EXPECT_LE(peak, least + 2 * kActivation + kWeight);
}

// A large result comes to be when a large temporary is gone.
TEST(MemoryPlanTest, ATemporaryIsGoneWhenTheResultComes) {
  constexpr int kRows = 4096, kWidth = 1024, kWide = 16384;
  constexpr int64_t kNarrow = int64_t{2} * kRows * kWidth, kLarge = int64_t{2} * kRows * kWide;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({kRows, kWidth}, kHalf), up = g.Input({kWidth, kWide}, kHalf);
  const Ref down = g.Input({kWide, kWidth}, kHalf), head = g.Input({kWidth, kWide}, kHalf);
  for (int i : {1, 2, 3}) g.graph().mutable_inputs(i)->set_is_parameter(true);
  const Ref wide =
      g.Node("aten::sigmoid", {Product(g, x, up, kRows, kWide)}, g.Meta({kRows, kWide}, kHalf));
  const Ref narrow = Product(g, wide, down, kRows, kWidth);
  g.Output(Product(g, narrow, head, kRows, kWide));
  // The sigmoid is in place.
  EXPECT_LE(PlannedMemory(CompileForCuda(g)).peak(), kLarge + 2 * kNarrow);
}

// What a product may take for itself: as much as a later step takes more.
TEST(MemoryPlanTest, CallsAreToldWhatTheyHaveToSpare) {
  constexpr int kRows = 4096, kWidth = 1024, kWide = 16384;
  constexpr int64_t kNarrow = int64_t{2} * kRows * kWidth, kLarge = int64_t{2} * kRows * kWide;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({kRows, kWidth}, kHalf), across = g.Input({kWidth, kWidth}, kHalf);
  const Ref head = g.Input({kWidth, kWide}, kHalf);
  for (int i : {1, 2}) g.graph().mutable_inputs(i)->set_is_parameter(true);
  g.Output(Product(g, Product(g, x, across, kRows, kWidth), head, kRows, kWide));
  std::vector<int64_t> spare;
  const v1::Artifact artifact = CompileForCuda(g);
  for (const v1::Step& step : artifact.steps()) {
    if (step.has_call()) spare.push_back(static_cast<int64_t>(step.call().spare_bytes()));
  }
  // The second has the large result in the place of the argument.
  EXPECT_THAT(spare, ElementsAre(kLarge - kNarrow, 0));
}

// The logits of a large vocabulary, which are given out and read by a loss: once in memory beside
// the converted weight, though the library is slow with rows of their length.
TEST(MemoryPlanTest, LogitsOfAnOddVocabulary) {
  constexpr int kRows = 8192, kWidth = 768, kVocabulary = 30522;
  constexpr int64_t kLogits = int64_t{2} * kRows * kVocabulary, kHead = 2 * kVocabulary * kWidth;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({kRows, kWidth}, kHalf), head = g.Input({kVocabulary, kWidth});
  g.graph().mutable_inputs(1)->set_is_parameter(true);
  const Ref half =
      g.Node("aten::_to_copy", {head, kHalf, nullptr, nullptr, nullptr, false, nullptr},
             g.Meta({kVocabulary, kWidth}, kHalf));
  const Ref logits = Product(g, x, Transposed(g, half, kVocabulary, kWidth), kRows, kVocabulary);
  g.Output(logits);
  g.Output(g.Node("aten::amax", {logits, Ints({1}), false}, g.Meta({kRows}, kHalf)));
  const v1::Artifact artifact = CompileForCuda(g);
  EXPECT_LE(PlannedMemory(artifact).peak(), kLogits + kHead + 2 * kRows * kWidth + kMiB);
}

// The sigmoid of a product with a square weight of float32, which is converted for it.
Ref ConvertedLayer(GraphBuilder& g, Ref x, Ref weight, int rows, int width) {
  const Ref half =
      g.Node("aten::_to_copy", {weight, kHalf, nullptr, nullptr, nullptr, false, nullptr},
             g.Meta({width, width}, kHalf));
  return g.Node("aten::sigmoid", {Product(g, x, half, rows, width)}, g.Meta({rows, width}, kHalf));
}

int64_t Launches(const v1::Artifact& artifact) {
  return std::count_if(artifact.steps().begin(), artifact.steps().end(),
                       [](const v1::Step& step) { return step.has_launch(); });
}

// The weights of a model are converted when they are needed.
TEST(MemoryPlanTest, ConvertedWeightsAreNotThereTogether) {
  constexpr int kRows = 1024, kWidth = 1024, kLayers = 64;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Ref x = g.Input({kRows, kWidth}, kHalf);
  std::vector<Ref> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(g.Input({kWidth, kWidth}));
    g.graph().mutable_inputs(g.graph().inputs_size() - 1)->set_is_parameter(true);
  }
  for (const Ref weight : weights) {
    x = ConvertedLayer(g, x, weight, kRows, kWidth);
  }
  g.Output(x);
  const v1::Artifact artifact = CompileForCuda(g);
  constexpr int64_t kMatrix = int64_t{2} * kWidth * kWidth;
  // Two groups of 32 MiB at most, and a few matrices of the chain itself.
  EXPECT_LE(PlannedMemory(artifact).peak(), 2 * 32 * kMiB + 4 * kMatrix);
  // An activation for each product, and not many more.
  EXPECT_LE(Launches(artifact), kLayers + kLayers / 8);
}

// Nor are they where memory is fullest, but where as much is free, though the launch that converts
// the first could convert all.
TEST(MemoryPlanTest, WeightsAreConvertedWhereMemoryIsLeft) {
  constexpr int kRows = 4096, kWidth = 512, kWide = 16384, kLayers = 48;
  constexpr int64_t kNarrow = int64_t{2} * kRows * kWidth, kLarge = int64_t{2} * kRows * kWide;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Ref x = g.Input({kRows, kWidth}, kHalf);
  const Ref up = g.Input({kWidth, kWide}, kHalf), down = g.Input({kWide, kWidth}, kHalf);
  std::vector<Ref> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(g.Input({kWidth, kWidth}));
  for (int i = 1; i < g.graph().inputs_size(); ++i) {
    g.graph().mutable_inputs(i)->set_is_parameter(true);
  }
  for (const Ref weight : weights) {
    x = ConvertedLayer(g, x, weight, kRows, kWidth);
    if (weight.value != weights.front().value) continue;
    const Ref wide =
        g.Node("aten::sigmoid", {Product(g, x, up, kRows, kWide)}, g.Meta({kRows, kWide}, kHalf));
    x = Product(g, wide, down, kRows, kWidth);
  }
  g.Output(x);
  const v1::Artifact artifact = CompileForCuda(g);
  // The argument, the wide matrix and what is made of it; the weights take 24 MiB.
  EXPECT_LE(PlannedMemory(artifact).peak(), kLarge + 2 * kNarrow + kMiB);
  // An activation for each product, and few more.
  EXPECT_LE(Launches(artifact), kLayers + kLayers / 8);
}

// And no earlier than in the launch before they are read, where that may take them: what lies
// between has their memory.
TEST(MemoryPlanTest, WeightsAreConvertedByTheLastLaunchThatMay) {
  constexpr int kRows = 256, kWidth = 256, kLayers = 6;
  constexpr int64_t kActivation = int64_t{2} * kRows * kWidth,
                    kWeight = int64_t{2} * kWidth * kWidth;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Ref x = g.Input({kRows, kWidth}, kHalf);
  std::vector<Ref> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(g.Input({kWidth, kWidth}));
    g.graph().mutable_inputs(g.graph().inputs_size() - 1)->set_is_parameter(true);
  }
  for (const Ref weight : weights) x = ConvertedLayer(g, x, weight, kRows, kWidth);
  g.Output(x);
  const v1::Artifact artifact = CompileForCuda(g);
  // A product, its operand and its weight, and the next weight.
  EXPECT_LE(PlannedMemory(artifact).peak(), 3 * kActivation + 2 * kWeight);
  EXPECT_EQ(Launches(artifact), kLayers + 1);
}

// Backward begins with all that forward saved. Weights' gradients in 16 bits are widened to results
// behind that, by launches that there are.
TEST(MemoryPlanTest, GradientsAreWidenedWhereMemoryIsLeft) {
  constexpr int kRows = 512, kWidth = 2048, kLayers = 6;
  constexpr int64_t kImage = int64_t{2} * kRows * kWidth, kWeight = int64_t{2} * kWidth * kWidth;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Ref gradient = g.Input({kRows, kWidth}, kHalf);
  const Ref weight = g.Input({kWidth, kWidth}, kHalf);
  g.graph().mutable_inputs(1)->set_is_parameter(true);
  std::vector<Ref> saved, narrow;
  // What forward saved of each layer is much, and is needed by its last step.
  for (int i = 0; i < 8 * kLayers; ++i) saved.push_back(g.Input({kRows, kWidth}, kHalf));
  for (int i = 0; i < kLayers; ++i) {
    narrow.push_back(g.Node("aten::mm", {Transposed(g, gradient, kRows, kWidth), saved[8 * i]},
                            g.Meta({kWidth, kWidth}, kHalf)));
    gradient = Product(g, gradient, weight, kRows, kWidth);
    for (int j = 1; j < 8; ++j) {
      gradient =
          g.Node("aten::mul.Tensor", {gradient, saved[8 * i + j]}, g.Meta({kRows, kWidth}, kHalf));
    }
  }
  g.Output(gradient);
  for (const Ref& of : narrow) {
    g.Output(g.Node("aten::_to_copy",
                    {of, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr, false, nullptr},
                    g.Meta({kWidth, kWidth})));
  }
  const v1::Artifact artifact = CompileForCuda(g);
  // The first layers' gradients, in 16 bits, and nothing of 32 on top.
  EXPECT_LE(PlannedMemory(artifact).peak(), (8 * kLayers + 2) * kImage + 2 * kWeight);
  // No launches of their own, but for the last two.
  EXPECT_LE(Launches(artifact), kLayers + 2);
}

// Blocks of a ResNet: the images that a residual is added to are overwritten, and are gone when
// what follows does not need them.
TEST(MemoryPlanTest, ResidualsAreOverwritten) {
  constexpr int kImages = 64, kPixels = 56, kNarrow = 64, kWide = 256;
  constexpr int64_t kOfNarrow = int64_t{2} * kImages * kPixels * kPixels * kNarrow;
  constexpr int64_t kOfWide = kOfNarrow * kWide / kNarrow;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const auto meta = [&](int channels) {
    return g.Meta({kImages, channels, kPixels, kPixels}, kHalf,
                  {kPixels * kPixels * channels, 1, kPixels * channels, channels});
  };
  const auto weight = [&](int to, int from, int size) {
    const Ref w = g.Input({to, from, size, size}, kHalf);
    g.graph().mutable_inputs(g.graph().inputs_size() - 1)->set_is_parameter(true);
    return w;
  };
  Ref x = g.Input(meta(kNarrow));
  const Ref up = weight(kWide, kNarrow, 1), down = weight(kNarrow, kWide, 1);
  const Ref across = weight(kNarrow, kNarrow, 3);
  const auto conv = [&](Ref of, Ref w, int channels, int padding) {
    return g.Node("aten::convolution",
                  {of, w, nullptr, Ints({1, 1}), Ints({padding, padding}), Ints({1, 1}), false,
                   Ints({0, 0}), 1},
                  meta(channels));
  };
  const auto relu = [&](Ref of, int channels) {
    return g.Node("aten::relu", {of}, meta(channels));
  };
  x = relu(conv(x, up, kWide, 0), kWide);
  for (int block = 0; block < 3; ++block) {
    Ref h = relu(conv(x, down, kNarrow, 0), kNarrow);
    h = relu(conv(h, across, kNarrow, 1), kNarrow);
    x = relu(g.Node("aten::add.Tensor", {conv(h, up, kWide, 0), x, 1}, meta(kWide)), kWide);
  }
  g.Output(
      g.Node("aten::mean.dim", {x, Ints({2, 3}), false, nullptr}, g.Meta({kImages, kWide}, kHalf)));
  const v1::Artifact artifact = CompileForCuda(g);
  EXPECT_LE(PlannedMemory(artifact).peak(), kOfWide + 2 * kOfNarrow + 2 * kMiB);
  // Nothing stands between the calls that are one to the library.
  int residuals = 0;
  for (int i = 0; i < artifact.steps_size(); ++i) {
    if (artifact.steps(i).call().op() != "aten::addmm") continue;
    int next = i + 1;
    while (artifact.steps(next).has_free()) ++next;
    EXPECT_EQ(artifact.steps(next).call().op(), "aten::add");
    ++residuals;
  }
  EXPECT_EQ(residuals, 3);
}

// relu(residual + a b + bias) into memory of its own: the residual is still needed.
TEST(MemoryPlanTest, ResidualsThatStay) {
  constexpr int kRows = 4096, kWidth = 1024;
  enum Case { kDies, kOperand, kReadLater, kGivenOut, kInput, kCases };
  for (int kind = 0; kind < kCases; ++kind) {
    SCOPED_TRACE(kind);
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Ref x = g.Input({kRows, kWidth}, kHalf), w = g.Input({kWidth, kWidth}, kHalf);
    const Ref b = g.Input({kWidth}, kHalf);
    g.graph().mutable_inputs(1)->set_is_parameter(true);
    const auto meta = g.Meta({kRows, kWidth}, kHalf);
    const Ref residual = kind == kInput ? x : g.Node("aten::sigmoid", {x}, meta);
    const Ref a = kind == kOperand ? residual : x;
    const Ref sum = g.Node("tensord::residual_product", {residual, a, w, b}, meta);
    // What reads the result is a product, so that it is in the workspace.
    Ref last = g.Node("aten::mm", {sum, w}, meta);
    if (kind == kReadLater) last = g.Node("aten::mul.Tensor", {last, residual}, meta);
    g.Output(g.Node("aten::sum.dim_IntList", {last, Ints({0}), false, nullptr},
                    g.Meta({kWidth}, kHalf)));
    if (kind == kGivenOut) g.Output(residual);
    const v1::Artifact artifact = CompileForCuda(g);
    for (const v1::Step& step : artifact.steps()) {
      if (step.call().op() != "aten::addmm") continue;
      const auto place = [&](int argument) {
        const v1::Buffer& buffer = artifact.buffers(step.call().args(argument).value().value());
        return std::pair(buffer.storage_case(), buffer.SerializeAsString());
      };
      EXPECT_EQ(place(0) == place(5), kind == kDies);
    }
  }
}

// The same of weights that are all made in front and read in two shapes each.
TEST(MemoryPlanTest, NeitherAreThoseReadInTwoShapes) {
  constexpr int kWidth = 1024, kLayers = 32;
  constexpr int64_t kMatrix = int64_t{2} * kWidth * kWidth;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  Ref x = g.Input({kWidth, kWidth}, kHalf), y = g.Input({kWidth, kWidth}, kHalf);
  std::vector<Ref> weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(g.Input({kWidth, kWidth}));
    g.graph().mutable_inputs(g.graph().inputs_size() - 1)->set_is_parameter(true);
  }
  for (Ref& weight : weights) {
    weight = g.Node("aten::_to_copy", {weight, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                    g.Meta({kWidth, kWidth}, kHalf));
  }
  for (const Ref weight : weights) {
    x = Product(g, x, weight, kWidth, kWidth);
    y = Product(g, y, Transposed(g, weight, kWidth, kWidth), kWidth, kWidth);
  }
  g.Output(x).Output(y);
  // Two groups of 32 MiB at most, and a few matrices of the chains: not all of 64 MiB, nor twice.
  const int64_t peak = PlannedMemory(CompileForCuda(g)).peak();
  EXPECT_LE(peak, 32 * kMiB + 10 * kMatrix);
}

// Two launches split rows among blocks: each is one launch, whose last block ends it, and both
// count in the same place, which is zero before the first of them.
TEST(MemoryPlanTest, LaunchesShareTheirCounters) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({3, 1 << 20}), y = g.Input({1 << 20, 8});
  const Ref sums = g.Node("aten::sum.dim_IntList", {x, Ints({1}), true, nullptr}, g.Meta({3, 1}));
  const Ref scaled = g.Node("aten::mul.Tensor", {x, sums}, g.Meta({3, 1 << 20}));
  const Ref product = g.Node("aten::mm", {scaled, y}, g.Meta({3, 8}));
  g.Output(g.Node("aten::amax", {scaled, Ints({1}), false}, g.Meta({3})));
  g.Output(product);
  const v1::Artifact artifact = CompileForCuda(g);
  ASSERT_TRUE(artifact.steps(0).has_zero_fill());
  const v1::ZeroFill& fill = artifact.steps(0).zero_fill();
  EXPECT_EQ(fill.bytes().constant(), 64);
  EXPECT_LE(fill.offset().constant() + 64, artifact.workspace_bytes().constant());
  int launches = 0;
  for (const v1::Step& step : artifact.steps()) {
    EXPECT_EQ(step.has_zero_fill(), &step == &artifact.steps(0));
    if (!step.has_launch()) continue;
    ++launches;
    const v1::CudaLaunch& cuda = step.launch().cuda();
    EXPECT_EQ(cuda.has_counters(), cuda.has_scratch());
    if (cuda.has_counters()) {
      EXPECT_EQ(cuda.counters().constant(), fill.offset().constant());
    }
  }
  EXPECT_EQ(launches, 3);  // and that of the product's operand
}

}  // namespace memory_test
}  // namespace tensord::testing
