// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compiler/import/expression.h"
#include "compiler/sym/expr_proto.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace {

using compiler::ArgumentValue;
using ::testing::HasSubstr;

// The message of an import that must fail.
std::string ErrorOf(const v1::Graph& graph) {
  const auto result = VerifiedImport(graph);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

GraphBuilder OneNode() {
  GraphBuilder g;
  const Ref x = g.Input({4, 8});
  g.Output(g.Node("aten::add.Tensor", {x, x, 1}, g.Meta({4, 8})));
  return g;
}

TEST(ImportTest, KeepsWhatWasCaptured) {
  GraphBuilder g;
  const Dim s = g.Symbol(6);
  const Ref n = g.SizeInput(s);
  const Ref x = g.Input({s, 4}, v1::DTYPE_BFLOAT16);
  const Ref c = g.Constant<float>({2}, v1::DTYPE_FLOAT32, {1, 2});
  const Ref y = g.Node("aten::foo.bar", {x, n, c, List({1, nullptr}), 0.5, "text", true},
                       {g.Meta({s * 4}), v1::TensorMeta()});
  const Ref z = g.Node("aten::baz", {y.result(1)}, g.Meta({s + 1}));
  g.Output(z).Output(nullptr).Output(s * s);
  const auto graph = VerifiedImport(g.graph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes[0].op, "aten::foo.bar");
  EXPECT_EQ(compiler::Describe(graph->nodes[0]), "node 'n0' (aten::foo.bar)");
  const auto& args = graph->nodes[0].args;
  EXPECT_EQ(args[0].kind, ArgumentValue::kValue);
  // An integer input is its expression wherever it is used.
  EXPECT_EQ(args[1].kind, ArgumentValue::kInteger);
  EXPECT_EQ(sym::ToString(args[1].integer), "s0");
  EXPECT_EQ(args[3].items.size(), 2u);
  EXPECT_EQ(args[3].items[1].kind, ArgumentValue::kNone);
  EXPECT_EQ(sym::Hint(graph->nodes[0].outputs[0].sizes[0]), 24);
  // A result that is absent is none to whoever reads it.
  EXPECT_EQ(graph->nodes[1].args[0].kind, ArgumentValue::kNone);
  EXPECT_EQ(sym::Hint(graph->outputs[2].integer), 36);
}

TEST(ImportTest, ReferencesPointBack) {
  GraphBuilder g = OneNode();
  g.graph().mutable_nodes(0)->mutable_args(1)->mutable_value()->set_value(1);
  EXPECT_THAT(ErrorOf(g.graph()),
              HasSubstr("node 'n0' (aten::add.Tensor): argument 1: refers to value 1"));
  g.graph().mutable_nodes(0)->mutable_args(1)->mutable_value()->set_value(4'000'000'000u);
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("argument 1"));
  GraphBuilder h = OneNode();
  h.graph().mutable_outputs(0)->mutable_value()->set_output(1);
  EXPECT_THAT(ErrorOf(h.graph()),
              HasSubstr("output 0: refers to result 1 of value 1, which has 1"));
}

TEST(ImportTest, OnlyTensorsThatAreNoParametersAreDonated) {
  GraphBuilder g = OneNode();
  v1::Input& input = *g.graph().mutable_inputs(0);
  input.set_is_donated(true);
  EXPECT_EQ(ErrorOf(g.graph()), "accepted");
  input.set_is_parameter(true);
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("input 0: is_donated is for tensors"));
  input.set_is_parameter(false);
  GraphBuilder h;
  h.Input({8});
  h.SizeInput(h.Symbol(8));
  h.graph().mutable_inputs(1)->set_is_donated(true);
  EXPECT_THAT(ErrorOf(h.graph()), HasSubstr("input 1: is_donated is for tensors"));
}

TEST(ImportTest, SymbolsAreBoundAndInRange) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  g.Input({s * 2});
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("symbol 0: is not the size of any input"));
  GraphBuilder h;
  h.Symbol(/*hint=*/1, /*min=*/2);
  EXPECT_THAT(ErrorOf(h.graph()), HasSubstr("symbol 0: needs min <= hint <= max, not 2, 1"));
  GraphBuilder i;
  v1::SymExpr unknown;
  unknown.set_symbol(3);
  i.Input({Dim(unknown)});
  EXPECT_THAT(ErrorOf(i.graph()), HasSubstr("input 0: expression names symbol 3 of 0"));
}

TEST(ImportTest, DefinedSymbolsNeedNoInput) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  g.Input({s});
  const Dim scaled = g.Symbol(/*hint=*/13, /*min=*/0);
  v1::Definition& definition = *g.graph().mutable_symbols(1)->mutable_definition();
  definition.set_rounding(v1::Definition::TRUNC);
  v1::RealOp& product = *definition.mutable_real()->mutable_op();
  product.set_kind(v1::RealOp::MUL);
  product.add_args()->set_constant(1.7);
  product.add_args()->mutable_integer()->set_symbol(0);
  const v1::Definition sound = definition;
  EXPECT_EQ(ErrorOf(g.graph()), "accepted");
  struct Case {
    const char* message;
    void (*damage)(v1::Definition* definition);
  };
  const Case cases[] = {
      {"rounds in an unknown way", [](v1::Definition* d) { d->clear_rounding(); }},
      {"is empty", [](v1::Definition* d) { d->mutable_real()->mutable_op()->add_args(); }},
      {"the wrong number of operands",
       [](v1::Definition* d) { d->mutable_real()->mutable_op()->set_kind(v1::RealOp::SQRT); }},
      {"an unknown operation",
       [](v1::Definition* d) {
         d->mutable_real()->mutable_op()->set_kind(static_cast<v1::RealOp::Kind>(77));
       }},
      {"a constant that is not finite",
       [](v1::Definition* d) {
         d->mutable_real()->mutable_op()->mutable_args(0)->set_constant(
             std::numeric_limits<double>::infinity());
       }},
      // Only symbols before it: no order but that of the numbers gives all of them values.
      {"names symbol 1 of 1",
       [](v1::Definition* d) {
         d->mutable_real()->mutable_op()->mutable_args(1)->mutable_integer()->set_symbol(1);
       }},
      {"is nested too deeply",
       [](v1::Definition* d) {
         for (int i = 0; i < 40; ++i) {
           const v1::RealExpr inner = d->real();
           d->mutable_real()->mutable_op()->Clear();
           d->mutable_real()->mutable_op()->set_kind(v1::RealOp::SQRT);
           *d->mutable_real()->mutable_op()->add_args() = inner;
         }
       }},
      {"has too many parts",
       [](v1::Definition* d) {
         for (int i = 0; i < 600; ++i) {
           d->mutable_real()->mutable_op()->add_args()->set_constant(1);
         }
       }},
  };
  for (const Case& c : cases) {
    definition = sound;
    c.damage(&definition);
    EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("symbol 1: "));
    EXPECT_THAT(ErrorOf(g.graph()), HasSubstr(c.message));
  }
}

TEST(ImportTest, TensorsAreComplete) {
  struct Case {
    const char* message;
    void (*damage)(v1::TensorMeta* meta);
  };
  const Case cases[] = {
      {"no known element type", [](v1::TensorMeta* m) { m->set_dtype(v1::DTYPE_UNSPECIFIED); }},
      {"no known device", [](v1::TensorMeta* m) { m->set_device(v1::DEVICE_TYPE_UNSPECIFIED); }},
      {"2 sizes but 1 strides", [](v1::TensorMeta* m) { m->mutable_strides()->RemoveLast(); }},
      {"size 0 is negative", [](v1::TensorMeta* m) { m->mutable_sizes(0)->set_constant(-1); }},
      {"stride 1 is negative", [](v1::TensorMeta* m) { m->mutable_strides(1)->set_constant(-1); }},
      {"offset is negative",
       [](v1::TensorMeta* m) { m->mutable_storage_offset()->set_constant(-4); }},
      {"larger than any memory",
       [](v1::TensorMeta* m) { m->mutable_sizes(0)->set_constant(int64_t{1} << 60); }},
      {"rank 65",
       [](v1::TensorMeta* m) {
         while (m->sizes_size() < 65) m->add_sizes()->set_constant(1);
       }},
  };
  for (const Case& c : cases) {
    GraphBuilder g = OneNode();
    c.damage(g.graph().mutable_inputs(0)->mutable_tensor());
    EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("input 0: ")) << c.message;
    EXPECT_THAT(ErrorOf(g.graph()), HasSubstr(c.message));
    if (std::string(c.message) == "no known element type") continue;  // an absent result
    GraphBuilder h = OneNode();
    c.damage(h.graph().mutable_nodes(0)->mutable_outputs(0));
    EXPECT_THAT(ErrorOf(h.graph()), HasSubstr("node 'n0' (aten::add.Tensor): result 0: "));
  }
}

TEST(ImportTest, ConstantsAreSmallAndDense) {
  GraphBuilder g;
  g.Constant<float>({3}, v1::DTYPE_FLOAT32, {1, 2});
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("constant 0: has 8 bytes for 3 elements of float32"));
  GraphBuilder h;
  h.Constant<float>({20'000}, v1::DTYPE_FLOAT32, std::vector<float>(20'000));
  EXPECT_THAT(ErrorOf(h.graph()), HasSubstr("constant 0: has 80000 bytes; more than 65536"));
  GraphBuilder i;
  i.Constant<float>({2, 2}, v1::DTYPE_FLOAT32, {1, 2, 3, 4});
  i.graph().mutable_constants(0)->mutable_meta()->mutable_strides(0)->set_constant(5);
  EXPECT_THAT(ErrorOf(i.graph()), HasSubstr("constant 0: is not dense"));
  i.graph().mutable_constants(0)->mutable_meta()->mutable_strides(0)->set_constant(2);
  EXPECT_TRUE(VerifiedImport(i.graph()).ok());
}

TEST(ImportTest, ListsAndExpressionsHaveLimits) {
  GraphBuilder g = OneNode();
  v1::Argument* arg = g.graph().mutable_nodes(0)->mutable_args(2);
  for (int depth = 0; depth < 9; ++depth) arg = arg->mutable_list()->add_items();
  arg->set_none(true);
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("lists are nested more than 8 deep"));

  const auto size_error = [](const Dim& size) {
    GraphBuilder h;
    const Dim s = h.Symbol(1 << 20);
    h.Symbol(3);
    h.Input({s, Dim([] {
               v1::SymExpr e;
               e.set_symbol(1);
               return e;
             }())});
    h.SizeInput(size);
    return ErrorOf(h.graph());
  };
  v1::SymExpr symbol;
  symbol.set_symbol(0);
  const Dim s(symbol);
  Dim deep = s, wide = s;
  for (int i = 0; i < 40; ++i) deep = deep + 1;
  EXPECT_THAT(size_error(deep), HasSubstr("input 1: expression is nested too deeply"));
  EXPECT_THAT(size_error(s * s * s * s), HasSubstr("too large"));
  for (int i = 0; i < 600; ++i) *wide.expr.mutable_op()->add_args() = s.expr;
  wide.expr.mutable_op()->set_kind(v1::SymOp::ADD);
  EXPECT_THAT(size_error(wide), HasSubstr("too many parts"));
  EXPECT_THAT(size_error(FloorDiv(s, 0)), HasSubstr("not always positive"));
  EXPECT_THAT(size_error(FloorDiv(s, s + int64_t{-2})), HasSubstr("not always positive"));
  EXPECT_EQ(size_error(FloorDiv(s, s + int64_t{-1})), "accepted");
  EXPECT_THAT(size_error(Dim(v1::SymExpr())), HasSubstr("expression is empty"));
  EXPECT_THAT(size_error(s * (int64_t{1} << 61)), HasSubstr("too large"));
}

TEST(ImportTest, NamesAreSafeInComments) {
  GraphBuilder g = OneNode();
  g.graph().mutable_nodes(0)->set_name("*/ evil();\n//");
  const auto graph = VerifiedImport(g.graph());
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->nodes[0].name, "___evil______");
  g.graph().mutable_nodes(0)->set_op("aten::add\n");
  EXPECT_THAT(ErrorOf(g.graph()), HasSubstr("malformed operator name"));
}

TEST(ImportTest, TheLargestIntegersAreArguments) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("aten::slice.Tensor", {x, 0, 0, INT64_MAX, 1}, g.Meta({4})));
  EXPECT_TRUE(VerifiedImport(g.graph()).ok());
}

TEST(ExpressionTest, ExportIsTheInverseOfImport) {
  std::vector<sym::Expr> symbols = {sym::Expr::Size(0, 2, 7), sym::Expr::Size(1, 2, 5)};
  const sym::Expr a = symbols[0], b = symbols[1];
  for (const sym::Expr& e :
       {sym::Expr(0), sym::Expr(-3), a, a * 2 + b - 1, a * a * b, sym::FloorDiv(a + 1, b),
        sym::Mod(a, sym::Expr(4)) * 8, sym::Min(a, b) + sym::Max(a, b * 2)}) {
    v1::SymExpr written;
    sym::ToProto(e, &written);
    const auto back = compiler::ImportExpr(written, symbols);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == e) << sym::ToString(e) << " became " << sym::ToString(*back);
  }
}

}  // namespace
}  // namespace tensord::testing
