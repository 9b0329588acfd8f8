// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/fold_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace fold_batch_norm_test {

using ::testing::Contains;
using ::testing::Not;

constexpr auto kBf16 = v1::DTYPE_BFLOAT16;
constexpr auto kFloat = v1::DTYPE_FLOAT32;

struct Options {
  v1::DType dtype = kFloat;       // of the activations
  v1::DType parameters = kFloat;  // of all parameters
  bool bias = false;
  bool affine = true;
  int groups = 1;
  bool second_user = false;
  const char* norm = "aten::_native_batch_norm_legit_no_training";
};

// relu(batch_norm(convolution(x, w))).
GraphBuilder Make(const Options& o) {
  GraphBuilder g;
  const Ref x = g.Input({2, 4, 5, 5}, o.dtype);
  const Ref w = g.Input({6, 4 / o.groups, 3, 3}, o.parameters);
  Ref b = g.Input({6}, o.parameters);
  const Ref gamma = g.Input({6}, o.parameters), beta = g.Input({6}, o.parameters);
  const Ref mean = g.Input({6}, o.parameters), variance = g.Input({6}, o.parameters);
  Ref weight = w;
  if (o.dtype != o.parameters) {
    weight = g.Node("prims::convert_element_type", {w, o.dtype},
                    g.Meta({6, 4 / o.groups, 3, 3}, o.dtype));
    b = g.Node("prims::convert_element_type", {b, o.dtype}, g.Meta({6}, o.dtype));
  }
  const auto out = g.Meta({2, 6, 5, 5}, o.dtype);
  const Ref y = g.Node("aten::convolution",
                       {x, weight, o.bias ? Arg(b) : Arg(nullptr), Ints({1, 1}), Ints({1, 1}),
                        Ints({1, 1}), false, Ints({0, 0}), o.groups},
                       out);
  std::vector<Arg> args{y, o.affine ? Arg(gamma) : Arg(nullptr),
                        o.affine ? Arg(beta) : Arg(nullptr), mean, variance};
  if (std::string(o.norm) == "aten::native_batch_norm") args.push_back(false);
  args.push_back(0.1);
  args.push_back(1e-3);
  const auto empty = g.Meta({0});
  const Ref norm = g.Node(o.norm, args, {out, empty, empty});
  g.Output(g.Node("aten::relu", {norm}, out));
  if (o.second_user) g.Output(g.Node("aten::neg", {y}, out));
  return g;
}

std::vector<HostTensor> Inputs(const compiler::Graph& graph) { return SomeInputs(graph, {6}); }

void ExpectFolds(const Options& o, double tolerance) {
  GraphBuilder g = Make(o);
  const compiler::Graph before = Imported(g);
  compiler::Graph after = before;
  EXPECT_EQ(compiler::FoldBatchNorm(CudaTarget(), &after), 1);
  EXPECT_THAT(OpsOf(after), Not(Contains(o.norm)));
  ExpectSameResults(before, after, Inputs(before), tolerance);
}

int Folds(const Options& o) {
  GraphBuilder g = Make(o);
  compiler::Graph graph = Imported(g);
  return compiler::FoldBatchNorm(CudaTarget(), &graph);
}

TEST(FoldBatchNormTest, GoesIntoWeightsAndBias) {
  ExpectFolds({}, 1e-6);
  ExpectFolds({.bias = true}, 1e-6);
  ExpectFolds({.affine = false}, 1e-6);
  ExpectFolds({.groups = 2}, 1e-6);
  ExpectFolds({.norm = "aten::native_batch_norm"}, 1e-6);
}

TEST(FoldBatchNormTest, RoundsTheWeightsOnce) {
  ExpectFolds({.dtype = kBf16, .bias = true}, 0.01);
  ExpectFolds({.dtype = kBf16, .parameters = kBf16}, 0.01);
  GraphBuilder g = Make({.dtype = kBf16});
  compiler::Graph graph = Imported(g);
  ASSERT_EQ(compiler::FoldBatchNorm(CudaTarget(), &graph), 1);
  // The only conversions are those of the scaled weights and of the bias.
  int conversions = 0;
  for (const std::string& op : OpsOf(graph)) conversions += op == "prims::convert_element_type";
  EXPECT_EQ(conversions, 2);
}

TEST(FoldBatchNormTest, LeavesWhatIsNeededElsewhere) { EXPECT_EQ(Folds({.second_user = true}), 0); }

TEST(FoldBatchNormTest, LeavesTraining) {
  GraphBuilder g = Make({.norm = "aten::native_batch_norm"});
  g.graph().mutable_nodes(1)->mutable_args(5)->set_boolean(true);
  compiler::Graph graph = Imported(g);
  EXPECT_EQ(compiler::FoldBatchNorm(CudaTarget(), &graph), 0);
}

TEST(FoldBatchNormTest, LeavesWeightsLargerThanTheActivations) {
  GraphBuilder g;
  const Ref x = g.Input({1, 64, 3, 3}), w = g.Input({64, 64, 3, 3});
  const Ref mean = g.Input({64}), variance = g.Input({64});
  const Ref y =
      g.Node("aten::convolution",
             {x, w, nullptr, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), 1},
             g.Meta({1, 64, 3, 3}));
  const auto empty = g.Meta({0});
  g.Output(g.Node("aten::_native_batch_norm_legit_no_training",
                  {y, nullptr, nullptr, mean, variance, 0.1, 1e-5},
                  {g.Meta({1, 64, 3, 3}), empty, empty}));
  compiler::Graph graph = Imported(g);
  EXPECT_EQ(compiler::FoldBatchNorm(CudaTarget(), &graph), 0);
}

// The statistics are read in front of the convolution, so nothing may write to them from there on.
TEST(FoldBatchNormTest, StaysBehindWritesToTheStatistics) {
  for (const bool through_view : {false, true}) {
    GraphBuilder g;
    const Ref x = g.Input({2, 4, 5, 5}), w = g.Input({6, 4, 3, 3});
    const Ref mean = g.Input({6}), variance = g.Input({6}), next = g.Input({6});
    const auto out = g.Meta({2, 6, 5, 5});
    const Ref y = g.Node(
        "aten::convolution",
        {x, w, nullptr, Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), false, Ints({0, 0}), 1}, out);
    const Ref to = through_view ? g.Node("aten::view", {mean, Ints({6})}, g.Meta({6})) : mean;
    g.Node("aten::copy_", {to, next, false}, g.Meta({6}));
    g.Output(g.Node("aten::_native_batch_norm_legit_no_training",
                    {y, nullptr, nullptr, mean, variance, 0.1, 1e-5},
                    {out, g.Meta({0}), g.Meta({0})}));
    compiler::Graph graph = Imported(g);
    EXPECT_EQ(compiler::FoldBatchNorm(CudaTarget(), &graph), 0);
  }
}

}  // namespace fold_batch_norm_test
}  // namespace tensord::testing
