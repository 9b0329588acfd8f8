// SPDX-License-Identifier: Apache-2.0
// Adding small computations to a graph without writing their types out.
#ifndef TENSORD_COMPILER_REWRITE_INSERTER_H_
#define TENSORD_COMPILER_REWRITE_INSERTER_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/editor.h"

namespace tensord::compiler {

// Inserts nodes in front of one old node, each behind those it inserted before. They are named as
// that node, or as another, so that people see what they belong to.
class Inserter {
 public:
  Inserter(GraphEditor* editor, int before) : Inserter(editor, before, before) {}
  Inserter(GraphEditor* editor, int before, int named_as)
      : editor_(*editor), before_(before), named_as_(named_as) {}

  const TensorType& TypeOf(ValueId value) const { return editor_.TypeOf(value); }

  // A node of any kind with one result (MakeNode).
  ValueId Node(std::string op, const NamedArguments& args, TensorType type);
  // The value itself where it has that type already.
  ValueId Cast(ValueId value, DType dtype);
  // One operand, same type.
  ValueId Map(std::string op, ValueId value);
  // Two operands of one dtype; the first has the result's sizes.
  ValueId Add(ValueId a, ValueId b);
  ValueId Subtract(ValueId a, ValueId b);
  ValueId Multiply(ValueId a, ValueId b);
  ValueId AddNumber(ValueId a, double number);
  // Of matrices, plus a bias for each column: aten::mm, aten::addmm or `biased`, an operator with
  // the arguments of addmm and those in `more`.
  ValueId Product(ValueId a, ValueId b, std::optional<ValueId> bias = std::nullopt,
                  std::string biased = "aten::addmm", const NamedArguments& more = {});
  // Row-major.
  ValueId View(ValueId value, const std::vector<Expr>& sizes);
  ValueId Permute(ValueId value, const std::vector<int>& order);
  // Images [N, C, H, W] as rows of pixels [N * H * W, C], and such rows as images of those sizes.
  ValueId Pixels(ValueId images);
  ValueId Images(ValueId pixels, const std::vector<Expr>& sizes);
  // The sum over all dimensions but the second: a number for each channel, or for each column of a
  // matrix.
  ValueId ChannelSums(ValueId value);
  // With zeros in front of and behind each dimension; negative numbers cut off.
  ValueId Pad(ValueId value, const std::vector<std::pair<int64_t, int64_t>>& zeros);
  // A copy in memory with other strides; the value itself where it has them.
  ValueId InLayout(ValueId value, const std::vector<Expr>& strides);
  // A channel vector that broadcasts over a tensor of that rank: [C, 1, ...] behind dimension
  // `dim`.
  ValueId AlongDim(ValueId vector, int dim, int rank);

 private:
  ValueId Sum(std::string op, ValueId a, ArgumentValue other);

  GraphEditor& editor_;
  int before_, named_as_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_INSERTER_H_
