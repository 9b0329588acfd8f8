// SPDX-License-Identifier: Apache-2.0
// compiler/sym: canonical form, division with ranges, substitution.
#include <gtest/gtest.h>

#include <limits>

#include "compiler/import/expression.h"
#include "compiler/sym/expr.h"
#include "compiler/sym/expr_proto.h"
#include "tensord/kernel_abi.h"
#include "tests/unit/testing/expression_vectors.h"
#include "tests/unit/testing/kernel_runner.h"

namespace tensord::sym {
namespace {

TEST(Expr, IsCanonical) {
  const Expr s = Expr::Size(0, 2, 8), t = Expr::Size(1, 2, 4);
  EXPECT_EQ((s + t) * (s - t), s * s - t * t);
  EXPECT_EQ(s * 2 - s - s, Expr(0));
  EXPECT_EQ(ToString(s * 4 + 1), "1 + s0 * 4");
  EXPECT_EQ(ToString(Expr(std::numeric_limits<int64_t>::min())), "-9223372036854775808");
}

TEST(Expr, LoopOfExtentOneIsZero) { EXPECT_EQ(Expr::Loop(3, Expr(1)), Expr(0)); }

TEST(FloorDiv, UsesRanges) {
  const Expr i = Expr::Loop(0, 12), j = Expr::Loop(1, 7);
  EXPECT_EQ(FloorDiv(i * 7 + j, 7), i);
  EXPECT_EQ(Mod(i * 7 + j, 7), j);
  EXPECT_EQ(FloorDiv(i * 14 + j * 2, 14), i);
  EXPECT_EQ(FloorDiv(i * 7 + j, 21), FloorDiv(i, 3));
  EXPECT_EQ(Mod(i * 14 + j * 2 + 1, 14), j * 2 + 1);
}

TEST(FloorDiv, OfSymbolicSizes) {
  const Expr s = Expr::Size(0, 2, 8);
  const Expr i = Expr::Loop(0, s), j = Expr::Loop(1, s * 3);
  EXPECT_EQ(FloorDiv(i * (s * 3) + j, s * 3), i);
  EXPECT_EQ(Mod(i * (s * 3) + j, s * 3), j);
  EXPECT_EQ(FloorDiv(s * 6, s * 2), Expr(3));
}

TEST(FloorDiv, OfNegativesRoundsDown) {
  EXPECT_EQ(FloorDiv(Expr(-7), Expr(2)), Expr(-4));
  EXPECT_EQ(Mod(Expr(-7), Expr(2)), Expr(1));
}

TEST(FloorDiv, NestedDivisionsMerge) {
  const Expr i = Expr::Loop(0, 100);
  EXPECT_EQ(FloorDiv(FloorDiv(i, 3), 5), FloorDiv(i, 15));
}

// Element `index` of one shape, as it lies in another with as many elements.
std::vector<Expr> Reshape(const std::vector<Expr>& index, const std::vector<Expr>& from,
                          const std::vector<Expr>& to) {
  Expr offset(0), below(1);
  for (size_t d = 0; d < from.size(); ++d) offset = offset * from[d] + index[d];
  std::vector<Expr> result(to.size());
  for (size_t d = to.size(); d-- > 0;) {
    result[d] = Mod(FloorDiv(offset, below), to[d]);
    below *= to[d];
  }
  return result;
}

// A proof asks for quotients and they for proofs: were none remembered, this would not end.
TEST(FloorDiv, ViewsOfViewsTakeNoExponentialTime) {
  const Expr n = Expr::Size(0, 2, 2), m = Expr::Size(1, 2, 8), k = Expr::Size(2, 2, 17);
  const std::vector<Expr> rows = {n, m, k}, pairs = {n, FloorDiv(m, 2), Expr(2), k};
  std::vector<Expr> index = {Expr::Loop(0, n), Expr::Loop(1, m), Expr::Loop(2, k)};
  for (int i = 0; i < 3; ++i) index = Reshape(Reshape(index, rows, pairs), pairs, rows);
  EXPECT_TRUE(ProvablyLess(index[1], m));
}

TEST(Expr, QuotientAndRemainderMakeTheWhole) {
  const Expr i = Expr::Loop(0, 4096), j = Expr::Loop(1, 256);
  EXPECT_EQ(FloorDiv(i, 128) * 128 + Mod(i, 128), i);
  EXPECT_EQ(FloorDiv(i, 128) * (128 * 256) + Mod(i, 128) * 256 + j, i * 256 + j);
  const Expr s = Expr::Size(0, 2, 8), k = Expr::Loop(2, s * 12);
  EXPECT_EQ(FloorDiv(k, s) * s * 5 + Mod(k, s) * 5, k * 5);
  // Three levels, as in reshaping to three dimensions and back.
  EXPECT_EQ(FloorDiv(i, 128) * 128 + Mod(FloorDiv(i, 8), 16) * 8 + Mod(i, 8), i);
}

TEST(ProvablyPositive, OfQuotientsOfSizes) {
  const Expr s = Expr::Size(0, 2, 8), t = Expr::Size(1, 0, 4);
  EXPECT_TRUE(ProvablyPositive(sym::FloorDiv(s, Expr(2))));
  EXPECT_TRUE(ProvablyPositive(sym::FloorDiv(s, Expr(2)) * s * 3));
  EXPECT_TRUE(ProvablyPositive(sym::Max(t, Expr(1))));
  EXPECT_FALSE(ProvablyPositive(sym::FloorDiv(s, Expr(3))));
  const Expr r = Expr::Size(7, /*min=*/7, /*hint=*/9);
  EXPECT_TRUE(ProvablyPositive(sym::FloorDiv(r - 1, Expr(2))));
  EXPECT_FALSE(ProvablyPositive(sym::FloorDiv(r - 1, Expr(2)) - 3));
  EXPECT_FALSE(ProvablyPositive(r - s * 2));
  EXPECT_FALSE(ProvablyPositive(s * t));
}

TEST(SymTest, SymbolsMayBeNegative) {
  const Expr n = Expr::Size(0, -3, 8), any = Expr::Size(1, std::numeric_limits<int64_t>::min(), 1);
  EXPECT_FALSE(ProvablyNonNegative(n));
  EXPECT_FALSE(ProvablyNonNegative(n * 2 + 5));
  EXPECT_TRUE(ProvablyNonNegative(n * 2 + 6));
  EXPECT_FALSE(ProvablyNonNegative(any));
  EXPECT_FALSE(ProvablyNonNegative(any * any * any + 1));
}

TEST(SymTest, NothingIsProvedByNumbersThatLeave64Bits) {
  const Expr least = Expr::Size(0, std::numeric_limits<int64_t>::min(), 6);
  const Expr small = Expr::Size(1, -(int64_t{1} << 31), 6), s = Expr::Size(2, 2, 8);
  EXPECT_FALSE(ProvablyNonNegative(sym::Min(least, s)));
  EXPECT_FALSE(ProvablyPositive(sym::Max(least, s) - s));
  EXPECT_FALSE(ProvablyNonNegative(small * (int64_t{1} << 33)));
  EXPECT_FALSE(ProvablyNonNegative(small * small));
  EXPECT_TRUE(ProvablyNonNegative(small + (int64_t{1} << 31)));
  const Expr most = Expr::Size(3, -1, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(ProvablyNonNegative(most + 1));
}

TEST(Substitute, SimplifiesAgain) {
  const Expr merged = Expr::Loop(0, 84);
  const Expr e = FloorDiv(merged, 7) * 7 + Mod(merged, 7);
  const Expr i = Expr::Loop(1, 12), j = Expr::Loop(2, 7);
  EXPECT_EQ(Substitute(e, {{{AtomKind::kLoop, 0}, i * 7 + j}}), i * 7 + j);
}

TEST(ProvablyLess, KnowsLoopBounds) {
  const Expr s = Expr::Size(0, 2, 8), i = Expr::Loop(0, s);
  EXPECT_TRUE(ProvablyLess(i, s));
  EXPECT_FALSE(ProvablyLess(i + 1, s));
  EXPECT_TRUE(ProvablyNonNegative(s - 2));
  EXPECT_FALSE(ProvablyNonNegative(s - 3));
  EXPECT_TRUE(ProvablyLess(Mod(i, 3), Expr(3)));
}

TEST(LinearCoefficient, OfAffineAndOthers) {
  const Expr s = Expr::Size(0, 2, 8), i = Expr::Loop(0, 10), j = Expr::Loop(1, 10);
  EXPECT_EQ(LinearCoefficient(i * s + j, {AtomKind::kLoop, 0}), s);
  EXPECT_EQ(LinearCoefficient(j, {AtomKind::kLoop, 0}), Expr(0));
  EXPECT_FALSE(LinearCoefficient(FloorDiv(i, 3), {AtomKind::kLoop, 0}).has_value());
}

TEST(ExactDiv, OfPolynomials) {
  const Expr s = Expr::Size(0, 2, 8), t = Expr::Size(1, 2, 4);
  EXPECT_EQ(ExactDiv(s * t * 6, s * 2), t * 3);
  EXPECT_EQ(ExactDiv((s + 1) * t, s + 1), t);
  EXPECT_FALSE(ExactDiv(s, t).has_value());
}

TEST(Evaluate, MatchesIntegers) {
  const Expr i = Expr::Loop(0, 100);
  for (int64_t v : {0, 1, 17, 99}) {
    const auto value = [v](const Atom&) { return v; };
    EXPECT_EQ(Evaluate(Mod(i + 3, 7) * 2 + FloorDiv(i, 4), value), (v + 3) % 7 * 2 + v / 4);
  }
}

// Import, evaluation, and the way back to the wire.
TEST(Evaluate, GivesTheSharedVectors) {
  const auto vectors = testing::ReadExpressionVectors();
  ASSERT_FALSE(vectors.empty());
  int checked = 0;
  for (const auto& vector : vectors) {
    for (const auto& [symbols, value] : vector.results) {
      const std::vector<Expr> sizes = {Expr::Size(0, 1, symbols[0]), Expr::Size(1, 1, symbols[1])};
      const auto imported = compiler::ImportExpr(vector.message, sizes);
      if (!imported.ok()) {
        EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ASSERT_TRUE(value.has_value()) << ToString(*imported) << " overflows at its hints";
      const auto value_of = [&](const Atom& atom) { return atom.hint; };
      EXPECT_EQ(Evaluate(*imported, value_of), *value) << ToString(*imported);
      v1::SymExpr written;
      ToProto(*imported, &written);
      const auto again = compiler::ImportExpr(written, sizes);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, *imported);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 72);  // the others divide by what may be negative or 0, or are too large
}

// The text that goes into kernels, compiled with the CPU prelude.
TEST(ToCpp, GivesTheSharedVectors) {
  const std::vector<Expr> sizes = {Expr::Size(0, 1, 8), Expr::Size(1, 1, 8)};
  const auto vectors = testing::ReadExpressionVectors();
  std::string source =
      "#include \"tensord/cpu.h\"\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void tensord_kernel("
      "const TensordKernelArgs* args) {\n"
      "  const int64_t s0 = args->integers[0], s1 = args->integers[1];\n"
      "  int64_t* const out = static_cast<int64_t*>(args->buffers[0]);\n";
  std::vector<const testing::SizeVector<v1::SymExpr>*> written;
  for (const auto& vector : vectors) {
    const auto imported = compiler::ImportExpr(vector.message, sizes);
    if (!imported.ok()) continue;
    source +=
        "  out[" + std::to_string(written.size()) + "] = " + ToCpp(*imported, SymbolName) + ";\n";
    written.push_back(&vector);
  }
  ASSERT_EQ(written.size(), 12u);
  testing::KernelLibrary library(v1::ISA_SCALAR);
  const absl::Status status = library.Add({source + "}\n"});
  ASSERT_TRUE(status.ok()) << status;
  const auto kernel = reinterpret_cast<TensordKernelFn>(library.Find(source + "}\n"));
  for (size_t r = 0; r < written[0]->results.size(); ++r) {
    std::vector<int64_t> out(written.size());
    void* const buffers[] = {out.data()};
    const TensordKernelArgs args{buffers, written[0]->results[r].symbols.data(), nullptr, nullptr};
    kernel(&args);
    for (size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(out[i], written[i]->results[r].value) << written[i]->message.ShortDebugString();
    }
  }
}

TEST(Proto, WritesSums) {
  const Expr s = Expr::Size(0, 2, 8);
  v1::SymExpr proto;
  ToProto(s * 4 + 1, &proto);
  EXPECT_EQ(proto.op().kind(), v1::SymOp::ADD);
  EXPECT_EQ(proto.op().args_size(), 2);
}

}  // namespace
}  // namespace tensord::sym
