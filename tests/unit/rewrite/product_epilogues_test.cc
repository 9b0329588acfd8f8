// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/product_epilogues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/rewrite/pad_products.h"
#include "tests/unit/testing/rewrite_products.h"

namespace tensord::testing {
namespace product_epilogues_test {

using compiler::Graph;
using ::testing::ElementsAre;

constexpr auto kHalf = v1::DTYPE_BFLOAT16;
constexpr auto kFloat = v1::DTYPE_FLOAT32;

// Runs the pass, expects `count` changes and equal results; gives the library calls.
std::vector<std::string> Rewritten(GraphBuilder& g, int count, Graph* after = nullptr) {
  const Graph before = Imported(g);
  Graph graph = before;
  EXPECT_EQ(compiler::ProductEpilogues(v1::Target(), &graph), count);
  ExpectSameOutputs(before, graph, 0.02);
  if (after != nullptr) *after = graph;
  std::vector<std::string> names;
  for (const std::string& call : LibraryCalls(MustLower(graph))) {
    names.push_back(call.substr(0, call.find(' ')));
  }
  return names;
}

// x @ w + b, then `activation` of it in three dimensions, then another product.
struct Layer {
  GraphBuilder g{v1::DEVICE_TYPE_CUDA};
  v1::DType dtype;
  Ref product;
  explicit Layer(v1::DType type) : dtype(type), product{0} {}
  void Build(const std::function<Ref(Ref)>& activation) {
    const Ref x = g.Input({6, 8}, dtype), w = g.Input({8, 10}, dtype), b = g.Input({10}, dtype),
              v = g.Input({10, 4}, dtype);
    product = g.Node("aten::addmm", {b, x, w, 1, 1}, g.Meta({6, 10}, dtype));
    const Ref y = g.Node("aten::view", {product, Ints({2, 3, 10})}, Type());
    const Ref z = g.Node("aten::view", {activation(y), Ints({6, 10})}, g.Meta({6, 10}, dtype));
    g.Output(g.Node("aten::mm", {z, v}, g.Meta({6, 4}, dtype)));
  }
  v1::TensorMeta Type() { return g.Meta({2, 3, 10}, dtype); }
  v1::TensorMeta Float() { return g.Meta({2, 3, 10}); }
  Ref Cast(Ref x, v1::DType type) {
    return g.Node("aten::_to_copy", {x, type, nullptr, nullptr, nullptr, false, nullptr},
                  g.Meta({2, 3, 10}, type));
  }
  Ref Relu(Ref x) { return g.Node("aten::relu", {x}, Type()); }
};

TEST(ProductEpiloguesTest, Relu) {
  Layer l(kHalf);
  l.Build([&](Ref x) { return l.Relu(x); });
  Graph graph;
  EXPECT_THAT(Rewritten(l.g, 1, &graph), ElementsAre("aten::_addmm_activation", "aten::mm"));
  EXPECT_EQ(LoopOperations(MustLower(graph)), 0);
}

TEST(ProductEpiloguesTest, GeluByTanh) {
  Layer l(kHalf);
  l.Build([&](Ref x) { return l.g.Node("aten::gelu", {x, "tanh"}, l.Type()); });
  EXPECT_THAT(Rewritten(l.g, 1), ElementsAre("aten::_addmm_activation", "aten::mm"));
  Layer m(kHalf);
  m.Build([&](Ref x) { return m.g.Node("aten::gelu", {x, "none"}, m.Type()); });
  EXPECT_THAT(Rewritten(m.g, 0), ElementsAre("aten::addmm", "aten::mm"));
}

// 0.5 x (1 + tanh(c (x + 0.044715 x^3))), as models write it; the power in float32 as autocast has
// it.
Ref SpeltOut(Layer& l, Ref x, bool autocast, double kappa = 0.044715) {
  GraphBuilder& g = l.g;
  const auto type = autocast ? l.Float() : l.Type();
  const Ref half = g.Node("aten::mul.Tensor", {x, 0.5}, l.Type());
  const Ref base = autocast ? l.Cast(x, kFloat) : x;
  const Ref cube = g.Node("aten::pow.Tensor_Scalar", {base, 3.0}, type);
  const Ref part = g.Node("aten::mul.Tensor", {cube, kappa}, type);
  const Ref sum = g.Node("aten::add.Tensor", {x, part, 1}, type);
  const Ref inner = g.Node("aten::mul.Tensor", {sum, 0.7978845608028654}, type);
  const Ref tanh = g.Node("aten::tanh", {inner}, type);
  const Ref one = g.Node("aten::add.Tensor", {tanh, 1.0, 1}, type);
  const Ref y = g.Node("aten::mul.Tensor", {half, one}, type);
  return autocast ? l.Cast(y, l.dtype) : y;
}

TEST(ProductEpiloguesTest, GeluInOtherWords) {
  for (const bool autocast : {false, true}) {
    Layer l(kHalf);
    l.Build([&](Ref x) { return SpeltOut(l, x, autocast); });
    EXPECT_THAT(Rewritten(l.g, 1), ElementsAre("aten::_addmm_activation", "aten::mm"));
  }
  Layer m(kHalf);
  m.Build([&](Ref x) { return SpeltOut(m, x, false, 0.05); });
  EXPECT_THAT(Rewritten(m.g, 0), ElementsAre("aten::addmm", "aten::mm"));
}

TEST(ProductEpiloguesTest, WhatIsReadElsewhereStays) {
  // The pre-activation is an output, as where it is saved for a backward.
  Layer l(kHalf);
  l.Build([&](Ref x) { return l.Relu(x); });
  l.g.Output(l.product);
  Rewritten(l.g, 0);
  // An inner step is.
  Layer m(kHalf);
  Ref tanh{0};
  m.Build([&](Ref x) { return tanh = m.g.Node("aten::tanh", {x}, m.Type()); });
  Rewritten(m.g, 0);
  // A kernel of ours reads the activation anyway.
  Layer n(kHalf);
  n.Build([&](Ref x) { return n.g.Node("aten::add.Tensor", {n.Relu(x), 2.0, 1}, n.Type()); });
  Rewritten(n.g, 0);
}

TEST(ProductEpiloguesTest, OnlyOneNumberAColumn) {
  for (const bool row : {false, true}) {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Ref x = g.Input({6, 8}, kHalf), w = g.Input({8, 10}, kHalf),
              b = row ? g.Input({1, 10}, kHalf) : g.Input({10}, kHalf);
    const Ref y = g.Node("aten::addmm", {b, x, w, row ? 1 : 2, 1}, g.Meta({6, 10}, kHalf));
    g.Output(g.Node("aten::relu", {y}, g.Meta({6, 10}, kHalf)));
    Graph graph = Imported(g);
    EXPECT_EQ(compiler::ProductEpilogues(v1::Target(), &graph), 0);
  }
}

TEST(ProductEpiloguesTest, BiasesAndThenActivations) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({6, 8}, kHalf), w = g.Input({8, 10}, kHalf), b = g.Input({10}, kHalf);
  const Ref y = g.Node("aten::mm", {x, w}, g.Meta({6, 10}, kHalf));
  const Ref v = g.Node("aten::_unsafe_view", {y, Ints({2, 3, 10})}, g.Meta({2, 3, 10}, kHalf));
  const Ref s = g.Node("aten::add.Tensor", {b, v, 1}, g.Meta({2, 3, 10}, kHalf));
  g.Output(g.Node("aten::relu", {s}, g.Meta({2, 3, 10}, kHalf)));
  EXPECT_THAT(Rewritten(g, 2), ElementsAre("aten::_addmm_activation"));
}

TEST(ProductEpiloguesTest, OtherSumsStay) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({10, 8}, kHalf), w = g.Input({8, 10}, kHalf), b = g.Input({10}),
            r = g.Input({10, 10}, kHalf), c = g.Input({5}, kHalf);
  const Ref p = g.Node("aten::mm", {x, w}, g.Meta({10, 10}, kHalf));  // another type
  g.Output(g.Node("aten::add.Tensor", {p, b, 1}, g.Meta({10, 10})));
  const Ref q = g.Node("aten::mm", {x, w}, g.Meta({10, 10}, kHalf));  // a whole matrix
  g.Output(g.Node("aten::add.Tensor", {q, r, 1}, g.Meta({10, 10}, kHalf)));
  const Ref s = g.Node("aten::mm", {x, w}, g.Meta({10, 10}, kHalf));  // other rows
  const Ref v = g.Node("aten::view", {s, Ints({20, 5})}, g.Meta({20, 5}, kHalf));
  g.Output(g.Node("aten::add.Tensor", {v, c, 1}, g.Meta({20, 5}, kHalf)));
  EXPECT_THAT(Rewritten(g, 0), ElementsAre("aten::mm", "aten::mm", "aten::mm"));
}

TEST(ProductEpiloguesTest, ThenPadding) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({32, 64}, kHalf), w = g.Input({64, 35}, kHalf), b = g.Input({35}, kHalf);
  const Ref y = g.Node("aten::addmm", {b, x, w, 1, 1}, g.Meta({32, 35}, kHalf));
  g.Output(g.Node("aten::relu", {y}, g.Meta({32, 35}, kHalf)));
  const Graph before = Imported(g);
  Graph graph = before;
  EXPECT_EQ(compiler::ProductEpilogues(v1::Target(), &graph), 1);
  EXPECT_EQ(compiler::PadProducts({.least_work = 0, .flops_per_byte = 0}, &graph), 1);
  EXPECT_THAT(LibraryCalls(MustLower(graph)),
              ElementsAre("aten::_addmm_activation 40/1 32/64x64/1 64/40x40/1"));
  ExpectSameOutputs(before, graph, 0.02);
}

// A call stands where its epilogue was, so nothing may have written to what it reads since.
TEST(ProductEpiloguesTest, StaysBeforeWritesToItsOperands) {
  for (const bool through_view : {false, true}) {
    GraphBuilder g(v1::DEVICE_TYPE_CUDA);
    const Ref x = g.Input({6, 8}, kHalf), w = g.Input({8, 10}, kHalf), b = g.Input({10}, kHalf),
              y = g.Input({6, 8}, kHalf);
    const Ref p = g.Node("aten::mm", {x, w}, g.Meta({6, 10}, kHalf));
    const Ref q = g.Node("aten::addmm", {b, x, w, 1, 1}, g.Meta({6, 10}, kHalf));
    Ref to = x, from = y;
    if (through_view) {
      to = g.Node("aten::view", {x, Ints({48})}, g.Meta({48}, kHalf));
      from = g.Node("aten::view", {y, Ints({48})}, g.Meta({48}, kHalf));
    }
    g.Node("aten::copy_", {to, from, false}, g.Meta(through_view ? Shape{48} : Shape{6, 8}, kHalf));
    g.Output(g.Node("aten::add.Tensor", {p, b, 1}, g.Meta({6, 10}, kHalf)));
    g.Output(g.Node("aten::relu", {q}, g.Meta({6, 10}, kHalf)));
    EXPECT_THAT(Rewritten(g, 0), ElementsAre("aten::mm", "aten::addmm"));
  }
}

}  // namespace product_epilogues_test
}  // namespace tensord::testing
