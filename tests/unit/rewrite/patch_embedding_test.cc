// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/patch_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {
namespace patch_embedding_test {

using compiler::Graph;
using ::testing::ElementsAre;

struct Options {
  int channels = 3;
  bool bias = true;
  int stride = 4;
  int padding = 0;
  v1::DType dtype = v1::DTYPE_FLOAT32;
  Dim batch = 2;
};

// The tokens of a vision transformer: flatten(2).transpose(1, 2) of the patches, as float32.
void Make(GraphBuilder& g, Options o) {
  const Ref x = g.Input({o.batch, o.channels, 8, 12});
  const Ref w = g.Input({5, o.channels, 4, 4}, o.dtype), b = g.Input({5}, o.dtype);
  const int rows = (8 + 2 * o.padding - 4) / o.stride + 1;
  const int columns = (12 + 2 * o.padding - 4) / o.stride + 1;
  const Ref image = g.Node("prims::convert_element_type", {x, o.dtype},
                           g.Meta({o.batch, o.channels, 8, 12}, o.dtype));
  const Ref y = g.Node("aten::convolution",
                       {image, w, o.bias ? Arg(b) : Arg(nullptr), Ints({o.stride, o.stride}),
                        Ints({o.padding, o.padding}), Ints({1, 1}), false, Ints({0, 0}), 1},
                       g.Meta({o.batch, 5, rows, columns}, o.dtype));
  const Ref flat = g.Node("aten::view", {y, Ints({o.batch, 5, rows * columns})},
                          g.Meta({o.batch, 5, rows * columns}, o.dtype));
  const Ref tokens = g.Node(
      "aten::transpose.int", {flat, 1, 2},
      g.Meta({o.batch, rows * columns, 5}, o.dtype, {5 * rows * columns, 1, rows * columns}));
  g.Output(g.Node("aten::neg", {tokens}, g.Meta({o.batch, rows * columns, 5}, o.dtype)));
}

int Products(const Options& o) {
  GraphBuilder g;
  Make(g, o);
  const Graph before = Imported(g);
  Graph after = before;
  const int count = compiler::PatchEmbedding(CudaTarget(), &after);
  ExpectSameResults(before, after, SomeInputs(before), o.dtype == v1::DTYPE_FLOAT32 ? 1e-6 : 0.01);
  return count;
}

TEST(PatchEmbeddingTest, IsAProduct) {
  EXPECT_EQ(Products({}), 1);
  EXPECT_EQ(Products({.bias = false}), 1);
  EXPECT_EQ(Products({.dtype = v1::DTYPE_BFLOAT16}), 1);
}

TEST(PatchEmbeddingTest, OfAnyNumberOfImages) {
  GraphBuilder g;
  Make(g, {.batch = g.Symbol(3)});
  Graph graph = Imported(g);
  EXPECT_EQ(compiler::PatchEmbedding(CudaTarget(), &graph), 1);
  RunGraph(graph, SomeInputs(graph));
}

// As one that is saved for backward is.
TEST(PatchEmbeddingTest, WhatIsGivenOutLiesAsInEager) {
  const auto products = [](bool is_read) {
    GraphBuilder g;
    const Ref x = g.Input({2, 3, 8, 12}), w = g.Input({5, 3, 4, 4}), b = g.Input({5});
    const v1::TensorMeta meta = g.Meta({2, 5, 2, 3});
    const Ref y =
        g.Node("aten::convolution",
               {x, w, b, Ints({4, 4}), Ints({0, 0}), Ints({1, 1}), false, Ints({0, 0}), 1}, meta);
    if (is_read) g.Output(g.Node("aten::neg", {y}, meta));
    g.Output(y).Output(y);
    const Graph before = Imported(g);
    Graph after = before;
    const int count = compiler::PatchEmbedding(CudaTarget(), &after);
    ExpectSameResults(before, after, SomeInputs(before), 1e-6);
    return count;
  };
  EXPECT_EQ(products(true), 1);
  EXPECT_EQ(products(false), 0);
}

TEST(PatchEmbeddingTest, CopiesTheImageOnce) {
  GraphBuilder g;
  Make(g, {.dtype = v1::DTYPE_BFLOAT16});
  Graph graph = Imported(g);
  ASSERT_EQ(compiler::PatchEmbedding(CudaTarget(), &graph), 1);
  const auto program = compiler::LowerGraph(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  // The patches, the product, what follows.
  EXPECT_EQ(program->operations.size(), 3u);
}

TEST(PatchEmbeddingTest, GradientsAreProductsToo) {
  GraphBuilder g;
  const Ref x = g.Input({2, 3, 8, 12}), w = g.Input({5, 3, 4, 4});
  const Ref tokens = g.Input({2, 6, 5});
  const Ref turned = g.Node("aten::permute", {tokens, Ints({0, 2, 1})},
                            g.Meta({2, 5, 6}, v1::DTYPE_FLOAT32, {30, 1, 5}));
  const Ref gradient = g.Node("aten::view", {turned, Ints({2, 5, 2, 3})},
                              g.Meta({2, 5, 2, 3}, v1::DTYPE_FLOAT32, {30, 1, 15, 5}));
  const Ref both = g.Node("aten::convolution_backward",
                          {gradient, x, w, Ints({5}), Ints({4, 4}), Ints({0, 0}), Ints({1, 1}),
                           false, Ints({0, 0}), 1, List({false, true, true})},
                          {v1::TensorMeta(), g.Meta({5, 3, 4, 4}), g.Meta({5})});
  g.Output(both.result(1)).Output(both.result(2));
  const Graph before = Imported(g);
  Graph after = before;
  EXPECT_EQ(compiler::PatchEmbedding(CudaTarget(), &after), 1);
  ExpectSameResults(before, after, SomeInputs(before), 1e-6);
}

TEST(PatchEmbeddingTest, OnlyWholePatchesOfFewChannels) {
  EXPECT_EQ(Products({.stride = 2}), 0);
  EXPECT_EQ(Products({.padding = 2}), 0);
  EXPECT_EQ(Products({.channels = 16}), 0);
}

}  // namespace patch_embedding_test
}  // namespace tensord::testing
