// SPDX-License-Identifier: Apache-2.0
// Captured graphs of attention whose scores are never in memory, as the client makes them of
// FlexAttention.
#ifndef TENSORD_TESTS_UNIT_TESTING_ATTENTION_GRAPHS_H_
#define TENSORD_TESTS_UNIT_TESTING_ATTENTION_GRAPHS_H_

#include <limits>
#include <vector>

#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {

struct AttentionCase {
  Dim batch = 2, heads = 4, groups = 2, queries = 200, keys = 200, width = 64, value_width = 64;
  v1::DType dtype = v1::DTYPE_BFLOAT16;
  bool is_causal = false;     // with lists of blocks of 128
  bool has_any_size = false;  // queries and keys are of one symbolic size
};

// The nodes of such a graph, while it is built.
struct AttentionGraph {
  explicit AttentionGraph(const AttentionCase& of)
      : c(WithSizes(of)),
        scores({c.batch, c.heads, c.queries, c.keys}),
        query(g.Input({c.batch, c.heads, c.queries, c.width}, c.dtype)),
        key(g.Input({c.batch, c.groups, c.keys, c.width}, c.dtype)),
        value(g.Input({c.batch, c.groups, c.keys, c.value_width}, c.dtype)),
        grad(g.Input({c.batch, c.heads, c.queries, c.value_width}, c.dtype)),
        sums(g.Input({c.batch, c.heads, c.queries, 1})),
        taken(g.Input({c.batch, c.heads, c.queries, 1})),
        given(g.Input(scores)),
        // Keys of which the rows lie across.
        across(g.Input({c.batch, c.groups, c.keys, c.width}, c.dtype,
                       {c.groups * c.keys * of.width, c.keys * of.width, 1, c.keys})) {
    for (int i = 0; i < 2; ++i) {
      lists.emplace_back(g.Input({1, 1, 2}, v1::DTYPE_INT32));
      lists.emplace_back(g.Input({1, 1, 2, 2}, v1::DTYPE_INT32));
    }
  }

  AttentionCase WithSizes(AttentionCase of) {
    if (of.has_any_size) of.queries = of.keys = g.Symbol(1000);
    return of;
  }
  v1::TensorMeta Meta(const Shape& sizes, v1::DType dtype = v1::DTYPE_FLOAT32) const {
    return g.Meta(sizes, dtype);
  }
  Ref Products(Ref a, Ref b, int step) {
    return g.Node("tensord::attention_products", {a, b, step}, Meta(scores));
  }
  Ref Scaled(Ref products) { return g.Node("aten::mul.Tensor", {products, 0.125}, Meta(scores)); }
  // -inf where a query comes before a key.
  Ref Masked(Ref of, double otherwise) {
    const auto places = [&](const Dim& size, const Shape& shape) {
      const Ref all = g.Node("aten::arange", {size, v1::DTYPE_INT64, nullptr, nullptr, nullptr},
                             Meta({size}, v1::DTYPE_INT64));
      return g.Node("aten::view", {all, Ints(shape)}, Meta(shape, v1::DTYPE_INT64));
    };
    const Ref rows = places(c.queries, {c.queries, 1}), columns = places(c.keys, {c.keys});
    const Ref seen =
        g.Node("aten::ge.Tensor", {rows, columns}, Meta({c.queries, c.keys}, v1::DTYPE_BOOL));
    return g.Node("aten::where.ScalarOther", {seen, of, otherwise}, Meta(scores));
  }
  Arg Blocks() const { return c.is_causal ? List(lists) : List({}); }
  Arg Sizes() const { return c.is_causal ? Ints({128, 128}) : Ints({64, 64}); }

  // Of scores: the result, the logarithms of sums of exponentials, the largest scores.
  Ref Attention(Ref masked, Ref unmasked) {
    const v1::TensorMeta numbers = Meta({c.batch, c.heads, c.queries});
    return g.Node("tensord::attention",
                  {masked, unmasked, value, Blocks(), Sizes(), Ints({0, 1, 2, 3})},
                  {Meta({c.batch, c.heads, c.queries, c.value_width}, c.dtype), numbers, numbers});
  }
  void Forward() {
    const Ref scaled = Scaled(Products(query, key, 0));
    const Ref masked =
        c.is_causal ? Masked(scaled, -std::numeric_limits<double>::infinity()) : scaled;
    g.Output(Attention(masked, scaled));
  }
  // Gradients of queries, keys and values, of that of the result.
  void Backward() {
    const auto scored = [&](const char* op, Ref a, const Arg& b) {
      return g.Node(op, {a, b}, Meta(scores));
    };
    // torch has the products of gradients and values first.
    const Ref of_weights =
        g.Node("aten::sub.Tensor", {Products(grad, value, 2), taken, 1}, Meta(scores));
    const Ref scaled = Scaled(Products(query, key, 1));
    const Ref less = g.Node("aten::sub.Tensor", {scaled, sums, 1}, Meta(scores));
    const Ref weights = g.Node("aten::exp", {less}, Meta(scores));
    const Ref of_scores = scored("aten::mul.Tensor", weights, of_weights);
    const Ref unmasked = scored("aten::mul.Tensor", of_scores, 0.125);
    const Ref masked = c.is_causal ? Masked(unmasked, 0.0) : unmasked;
    const Ref masked_weights = c.is_causal ? Masked(weights, 0.0) : weights;
    g.Output(g.Node("tensord::attention_query_gradient",
                    {masked, unmasked, key, Blocks(), Sizes(), Ints({0, 1, 2, 3})},
                    Meta({c.batch, c.heads, c.queries, c.width}, c.dtype)));
    const Ref of_keys = g.Node("tensord::attention_key_gradients",
                               {masked, unmasked, masked_weights, weights, query, grad, key, value,
                                Blocks(), Sizes(), Ints({0, 1, 2, 3, 0, 1, 2, 3})},
                               {Meta({c.batch, c.groups, c.keys, c.width}, c.dtype),
                                Meta({c.batch, c.groups, c.keys, c.value_width}, c.dtype)});
    g.Output(of_keys).Output(of_keys.result(1));
  }

  GraphBuilder g;
  const AttentionCase c;
  const Shape scores;
  // The result's gradient, and of each query what backward knows; scores, and keys, of their own.
  const Ref query, key, value, grad, sums, taken, given, across;
  std::vector<Arg> lists;
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_ATTENTION_GRAPHS_H_
