// SPDX-License-Identifier: Apache-2.0
// Grids of places beyond their numbers (decompose_golden_test.cc): what each device's library makes
// of coordinates that are not finite, and which grids do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace grid_sampler_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

constexpr v1::DeviceType kCpu = v1::DEVICE_TYPE_CPU, kCuda = v1::DEVICE_TYPE_CUDA;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();
enum Mode { kLinear, kNearest, kCubic };
enum Padding { kZeros, kBorder };

absl::StatusOr<compiler::Program> Lower(GraphBuilder& g) {
  const auto graph = VerifiedImport(g.graph());
  if (!graph.ok()) return graph.status();
  return compiler::LowerGraph(*graph);
}

// What is read of the volume, or the image, 1, 2, 3, 4 in one row at these places of it.
std::vector<double> Read(v1::DeviceType device, int dimensions, Mode mode, Padding padding,
                         const std::vector<double>& places) {
  const int count = static_cast<int>(places.size());
  GraphBuilder g(device);
  Shape image(dimensions + 2, 1), grid(dimensions + 2, 1), results(dimensions + 2, 1);
  std::vector<int64_t> image_sizes(dimensions + 2, 1), grid_sizes = image_sizes;
  image.back() = image_sizes.back() = 4;
  grid[dimensions] = results.back() = grid_sizes[dimensions] = count;
  grid.back() = grid_sizes.back() = dimensions;
  const Ref x = g.Input(image), at = g.Input(grid);
  g.Output(g.Node(dimensions == 3 ? "aten::grid_sampler_3d" : "aten::grid_sampler_2d",
                  {x, at, static_cast<int>(mode), static_cast<int>(padding), true},
                  g.Meta(results)));
  const auto program = Lower(g);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  std::vector<double> coordinates;
  for (const double place : places) {
    coordinates.push_back(place);
    coordinates.insert(coordinates.end(), dimensions - 1, 0.0);
  }
  std::vector<HostTensor> inputs = {MakeTensor(image_sizes, {1, 2, 3, 4}),
                                    MakeTensor(grid_sizes, coordinates)};
  return Interpret(*program, inputs).at(0).Values();
}

TEST(GridSampler, NanIsClampedAsTheLibraryDoes) {
  for (const Mode mode : {kLinear, kNearest}) {
    EXPECT_THAT(Read(kCpu, 2, mode, kBorder, {kNan, kInfinity}), ElementsAre(1, 4));
    EXPECT_THAT(Read(kCpu, 3, mode, kBorder, {kNan, kInfinity}), ElementsAre(4, 4));
    EXPECT_THAT(Read(kCuda, 2, mode, kBorder, {kNan, kInfinity}), ElementsAre(1, 4));
    EXPECT_THAT(Read(kCuda, 3, mode, kBorder, {kNan, kInfinity}), ElementsAre(1, 4));
  }
}

TEST(GridSampler, OutOfRangeThereIsNothingOrZeroTimesItsWeight) {
  const std::vector<double> places = {kNan, kInfinity, -kInfinity};
  EXPECT_THAT(Read(kCpu, 2, kLinear, kZeros, places), Each(IsNan()));
  EXPECT_THAT(Read(kCpu, 3, kLinear, kZeros, places), Each(0));
  EXPECT_THAT(Read(kCuda, 2, kLinear, kZeros, places), Each(0));
  EXPECT_THAT(Read(kCuda, 3, kLinear, kZeros, places), Each(0));
  EXPECT_THAT(Read(kCuda, 2, kNearest, kZeros, places), Each(0));
  EXPECT_THAT(Read(kCuda, 2, kCubic, kZeros, places), Each(IsNan()));
}

// Amid two of the largest numbers of one row each has a weight of 0.59, and their sum no room; by
// both dimensions' weights at once, of 0.35, they would have.
TEST(GridSampler, CubicSamplesAreSummedRowByRow) {
  constexpr v1::DType kDouble = v1::DTYPE_FLOAT64;  // as the interpreter computes
  GraphBuilder g;
  const Ref x = g.Input({1, 1, 4, 4}, kDouble), at = g.Input({1, 1, 1, 2}, kDouble);
  g.Output(g.Node("aten::grid_sampler_2d",
                  {x, at, static_cast<int>(kCubic), static_cast<int>(kZeros), true},
                  g.Meta({1, 1, 1, 1}, kDouble)));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<double> image(16, 1);
  image[5] = image[6] = std::numeric_limits<double>::max();
  std::vector<HostTensor> inputs = {MakeTensor({1, 1, 4, 4}, image, kDouble),
                                    MakeTensor({1, 1, 1, 2}, {0, 0}, kDouble)};
  EXPECT_THAT(Interpret(*program, inputs).at(0).Values(), Each(kInfinity));
}

TEST(GridSampler, HasABatchOfTheImages) {
  GraphBuilder g;
  const Ref x = g.Input({2, 1, 4, 4}), at = g.Input({3, 5, 5, 2});
  g.Output(g.Node("aten::grid_sampler_2d", {x, at, 0, 0, false}, g.Meta({2, 1, 5, 5})));
  EXPECT_THAT(std::string(Lower(g).status().message()),
              HasSubstr("the grid does not fit the image"));
}

}  // namespace grid_sampler_test
}  // namespace tensord::testing
