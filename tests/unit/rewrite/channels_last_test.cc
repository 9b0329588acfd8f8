// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/channels_last.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace channels_last_test {

using compiler::Graph;
using compiler::Node;
using ::testing::ElementsAre;

constexpr auto kHalf = v1::DTYPE_BFLOAT16;
const Shape kImage{2, 8, 6, 6};

std::vector<int64_t> StridesOf(const compiler::TensorType& type) {
  std::vector<int64_t> strides;
  for (const auto& stride : type.strides) strides.push_back(sym::Hint(stride));
  return strides;
}

class Net {
 public:
  explicit Net(int groups = 1) : groups_(groups) {
    x = g.Input(kImage, kHalf);
    w = g.Input({8, 8 / groups, 3, 3}, kHalf);
  }
  v1::TensorMeta Meta() const { return g.Meta(kImage, kHalf); }
  Ref Conv(Ref t) {
    return g.Node(
        "aten::convolution",
        {t, w, nullptr, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), groups_},
        Meta());
  }
  Ref Map(const char* op, Ref t) { return g.Node(op, {t}, Meta()); }

  GraphBuilder g{v1::DEVICE_TYPE_CUDA};
  Ref x{0}, w{0};

 private:
  int groups_;
};

// Channels-last strides of [2, 8, 6, 6].
const auto kIsChannelsLast = ElementsAre(288, 1, 48, 8);
const auto kIsRowMajor = ElementsAre(288, 36, 6, 1);

struct Result {
  Graph before, after;
  int count;
};

Result Rewritten(Net& net) {
  Result r{.before = Imported(net.g)};
  r.after = r.before;
  r.count = compiler::ChannelsLast(CudaTarget(), &r.after);
  ExpectSameResults(r.before, r.after, SomeInputs(r.before), 0.01);
  return r;
}

TEST(ChannelsLastTest, ConvertsAtTheBordersOnly) {
  Net net;
  const Ref a = net.Map("aten::relu", net.Conv(net.Map("aten::neg", net.x)));
  const Ref b = net.Map("aten::relu", net.Conv(a));
  net.g.Output(net.g.Node("aten::add.Tensor", {b, a, 1}, net.Meta()));
  const Result r = Rewritten(net);
  EXPECT_EQ(r.count, 6);
  // One copy of the weight for both convolutions, one of the result.
  EXPECT_THAT(OpsOf(r.after),
              ElementsAre("aten::neg", "aten::clone", "aten::convolution", "aten::relu",
                          "aten::convolution", "aten::relu", "aten::add.Tensor", "aten::clone"));
  EXPECT_THAT(StridesOf(NodeOf(r.after, "aten::neg").outputs[0]), kIsChannelsLast);
  EXPECT_THAT(StridesOf(NodeOf(r.after, "aten::relu").outputs[0]), kIsChannelsLast);
  EXPECT_THAT(StridesOf(NodeOf(r.after, "aten::clone").outputs[0]), kIsRowMajor);
}

TEST(ChannelsLastTest, BringsInWhatACallTakes) {
  Net net;
  const Ref a = net.Conv(net.Conv(net.x));
  net.g.Output(net.g.Node("aten::sum", {a, nullptr}, net.g.Meta({}, kHalf)));
  const Result r = Rewritten(net);
  EXPECT_EQ(r.count, 2);
  EXPECT_THAT(OpsOf(r.after), ElementsAre("aten::clone", "aten::clone", "aten::convolution",
                                          "aten::convolution", "aten::sum"));
}

TEST(ChannelsLastTest, ViewsReadAnyLayout) {
  Net net;
  const Ref a = net.Map("aten::relu", net.Conv(net.Conv(net.x)));
  net.g.Output(net.g.Node("aten::view", {a, Ints({2, 288})}, net.g.Meta({2, 288}, kHalf)));
  EXPECT_EQ(Rewritten(net).count, 3);
}

// Ours reads any layout, and both of its results follow.
TEST(ChannelsLastTest, MaxPoolingFollows) {
  Net net;
  const Ref a = net.Map("aten::relu", net.Conv(net.Conv(net.x)));
  const Shape half{2, 8, 3, 3};
  const Ref pool = net.g.Node("aten::max_pool2d_with_indices",
                              {a, Ints({2, 2}), Ints({2, 2}), Ints({0, 0}), Ints({1, 1}), false},
                              {net.g.Meta(half, kHalf), net.g.Meta(half, v1::DTYPE_INT64)});
  net.g.Output(net.g.Node("aten::sum", {pool, nullptr}, net.g.Meta({}, kHalf)));
  net.g.Output(pool.result(1));
  const Result r = Rewritten(net);
  EXPECT_EQ(r.count, 4);
  const Node& node = NodeOf(r.after, "aten::max_pool2d_with_indices");
  EXPECT_THAT(StridesOf(node.outputs[0]), ElementsAre(72, 1, 24, 8));
  EXPECT_THAT(StridesOf(node.outputs[1]), ElementsAre(72, 1, 24, 8));
}

TEST(ChannelsLastTest, StridedViewsGetEagersLayout) {
  Net net;
  const Ref a = net.Conv(net.Conv(net.Map("aten::neg", net.x)));
  net.g.Output(net.g.Node("aten::as_strided", {a, Ints({2, 10}), Ints({288, 3}), 1},
                          net.g.Meta({2, 10}, kHalf, {288, 3}, 1)));
  const Result r = Rewritten(net);
  EXPECT_EQ(r.count, 3);
}

TEST(ChannelsLastTest, StaysWhereTheBordersCostMore) {
  // As in training: what is computed is also handed out.
  Net net;
  const Ref a = net.Conv(net.x), b = net.Map("aten::relu", a);
  net.g.Output(a).Output(b);
  EXPECT_EQ(Rewritten(net).count, 0);
  Net grouped(2);
  grouped.g.Output(grouped.Map("aten::relu", grouped.Conv(grouped.x)));
  EXPECT_EQ(Rewritten(grouped).count, 0);
}

TEST(ChannelsLastTest, JoinsInPlace) {
  Net net;
  const Ref a = net.Conv(net.Map("aten::neg", net.x)), b = net.Conv(a);
  const Shape both{2, 16, 6, 6};
  const Ref c = net.g.Node("aten::cat", {List({a, b}), 1}, net.g.Meta(both, kHalf));
  net.g.Output(net.g.Node("aten::sum", {c, nullptr}, net.g.Meta({}, kHalf)));
  const Result r = Rewritten(net);
  EXPECT_EQ(r.count, 4);
  EXPECT_THAT(StridesOf(NodeOf(r.after, "aten::cat").outputs[0]), ElementsAre(576, 1, 96, 16));
}

// One copy serves the convolutions that read the same, not those behind a write.
TEST(ChannelsLastTest, BringsInAgainWhatWasWritten) {
  Net net;
  const Ref next = net.Map("aten::neg", net.x);
  const Ref before = net.Map("aten::relu", net.Conv(net.x));
  net.g.Node("aten::copy_", {net.x, next, false}, net.Meta());
  const Ref after = net.Map("aten::relu", net.Conv(net.x));
  const Ref sum = net.g.Node("aten::add.Tensor", {before, after, 1}, net.Meta());
  net.g.Output(net.Map("aten::relu", net.Conv(net.Conv(sum))));
  EXPECT_GT(Rewritten(net).count, 0);
}

}  // namespace channels_last_test
}  // namespace tensord::testing
