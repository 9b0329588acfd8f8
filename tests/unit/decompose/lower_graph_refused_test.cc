// SPDX-License-Identifier: Apache-2.0
// Graphs that are refused, and what is said of them: types that eager refuses, wrong arguments and
// shapes, writes to what is no input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace lower_graph_refused_test {

using lower_graph_testing::ErrorOf;
using ::testing::HasSubstr;

// What is said of `op` of one or two operands of these types; "accepted" where it takes them.
std::string ErrorOfTypes(const char* op, std::vector<v1::DType> types, std::vector<Arg> more,
                         v1::DType result) {
  GraphBuilder g;
  std::vector<Arg> args;
  for (const v1::DType type : types) args.push_back(g.Input({4, 4}, type));
  args.insert(args.end(), more.begin(), more.end());
  g.Output(g.Node(op, args, g.Meta({4, 4}, result)));
  return ErrorOf(g);
}

TEST(LowerGraphRefusedTest, TypesThatEagerRefusesAreRefused) {
  constexpr v1::DType kFloat = v1::DTYPE_FLOAT32, kLong = v1::DTYPE_INT64, kTruth = v1::DTYPE_BOOL;
  const auto refused = HasSubstr("it does not take operands of these types");
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_and.Tensor", {kFloat, kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_or.Tensor", {kLong, kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_not", {kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::gelu", {kLong}, {"none"}, kLong), refused);
  EXPECT_THAT(ErrorOfTypes("aten::relu", {kTruth}, {}, kTruth), refused);
  EXPECT_THAT(ErrorOfTypes("aten::mm", {kLong, kFloat}, {}, kFloat),
              HasSubstr("the operands are int64 and float32"));
  EXPECT_EQ(ErrorOfTypes("aten::bitwise_and.Tensor", {kLong, kTruth}, {}, kLong), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::bitwise_not", {kTruth}, {}, kTruth), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::gelu", {kFloat}, {"none"}, kFloat), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::relu", {kLong}, {}, kLong), "accepted");
}

TEST(LowerGraphRefusedTest, WritesByTheLibraryAreAsTheyAreDeclared) {
  GraphBuilder g;
  const Ref x = g.Input({4, 6});
  v1::TensorMeta elsewhere = g.Meta({4, 6});
  elsewhere.set_device(v1::DEVICE_TYPE_CUDA);
  const Ref y = g.Input(elsewhere);
  g.Output(g.Node("aten::copy_", {x, y, false}, g.Meta({4}, v1::DTYPE_INT64)));
  EXPECT_THAT(ErrorOf(g), HasSubstr("must be float32[4, 6], but is declared as int64[4]"));
}

TEST(LowerGraphRefusedTest, ViewsOfWhatNobodyHas) {
  GraphBuilder g;
  const Ref x = g.Input({6, 4});
  const Ref doubled = g.Node("aten::mul.Tensor", {x, 2.0}, g.Meta({6, 4}));
  const Ref slice = g.Node("aten::slice.Tensor", {doubled, 0, 2, 6, 1},
                           g.Meta({4, 4}, v1::DTYPE_FLOAT32, {4, 1}, 8));
  // It begins where the doubled numbers do, of which a program may have the slice alone.
  g.Output(g.Node("aten::as_strided", {slice, Ints({3}), Ints({1}), 0}, g.Meta({3})));
  EXPECT_THAT(ErrorOf(g), HasSubstr("reaches beyond the memory of its argument"));
}

TEST(LowerGraphRefusedTest, ChecksArgumentsAgainstTheSignature) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("aten::add.Tensor", {x, x}, g.Meta({4})));
  EXPECT_EQ(ErrorOf(g), "node 'n0' (aten::add.Tensor): takes 3 arguments, but has 2");
  GraphBuilder h;
  const Ref y = h.Input({4});
  h.Output(h.Node("aten::add.Tensor", {y, "text", 1}, h.Meta({4})));
  EXPECT_EQ(
      ErrorOf(h),
      "node 'n0' (aten::add.Tensor): argument 'other' must be a tensor or a number, but is a text");
  GraphBuilder i;
  const Ref z = i.Input({4});
  i.Output(i.Node("aten::cat", {List({z, nullptr}), 0}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("argument 'tensors' must be a list, each item a tensor"));
}

TEST(LowerGraphRefusedTest, ShapesMustFollow) {
  GraphBuilder g;
  const Ref x = g.Input({4, 1}), y = g.Input({8});
  g.Output(g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({4, 7})));
  EXPECT_EQ(ErrorOf(g),
            "node 'n0' (aten::add.Tensor): result 0 must be float32[4, 8], but is declared as "
            "float32[4, 7]");
  GraphBuilder h;
  const Ref a = h.Input({4}), b = h.Input({3});
  h.Output(h.Node("aten::add.Tensor", {a, b, 1}, h.Meta({4})));
  EXPECT_THAT(ErrorOf(h), HasSubstr("node 'n0' (aten::add.Tensor): sizes do not broadcast"));
  GraphBuilder i;
  const Ref c = i.Input({4}, v1::DTYPE_INT64);
  i.Output(i.Node("aten::neg", {c}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("must be int64[4], but is declared as float32[4]"));
  GraphBuilder j;
  const Ref d = j.Input({4});
  j.Output(j.Node("aten::neg", {d}, {j.Meta({4}), j.Meta({4})}));
  EXPECT_THAT(ErrorOf(j), HasSubstr("gives 1 results, but 2 are declared"));
  GraphBuilder k;
  const Ref e = k.Input({4});
  k.Output(k.Node("aten::add.Tensor", {e, e, 1}, k.Meta({4}, v1::DTYPE_COMPLEX64)));
  EXPECT_THAT(ErrorOf(k), HasSubstr("must be float32[4], but is declared as complex64[4]"));
}

TEST(LowerGraphRefusedTest, RefusesUnknownOperatorsOfOursAndWrites) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("tensord::nothing", {x}, g.Meta({4})));
  EXPECT_THAT(ErrorOf(g), HasSubstr("node 'n0' (tensord::nothing): unknown operator"));
  GraphBuilder h;
  const Ref y = h.Input({4});
  h.Output(h.Node("aten::frobnicate_", {y}, h.Meta({4})));
  EXPECT_THAT(ErrorOf(h), HasSubstr("writes to its arguments"));
  GraphBuilder i;
  const Ref z = i.Input({4});
  const Ref sum = i.Node("aten::neg", {z}, i.Meta({4}));
  i.Output(i.Node("aten::copy_", {sum, z, false}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("only inputs may be written"));
}

}  // namespace lower_graph_refused_test
}  // namespace tensord::testing
