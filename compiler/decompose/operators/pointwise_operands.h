// SPDX-License-Identifier: Apache-2.0
// Pointwise operators over tensors and numbers alike.
//
// A Core computes one result from operands; `Single` makes it the lowering of an operator, `Each`
// that of the operator's `_foreach_` form. Operands are the arguments that the schema gives as
// tensors or numbers, in its order, whatever their names.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_OPERANDS_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_OPERANDS_H_

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// monostate: the argument is none.
using Operand = std::variant<std::monostate, Tensor, Scalar>;
using Operands = std::span<const Operand>;
using OneResult = absl::StatusOr<Tensor>;

// `declared`: the type that eager gives to the result.
using Core = OneResult (*)(Builder& b, Operands args, DType declared);

inline bool IsNone(const Operand& arg) { return std::holds_alternative<std::monostate>(arg); }

// torch's result type of these operands; where only integers met a real number, the declared
// floating type (the job's default type is not known here).
DType CommonType(Operands args, DType declared);
// The same, but floating: integers become the declared type.
DType FloatCommonType(Operands args, DType declared);

// An operand as a lazy tensor of `dtype`. Numbers are not rounded to narrow floats: eager computes
// with them in the compute type.
Tensor ToTensor(Builder& b, const Operand& arg, DType dtype);
// All of them, none left out.
std::vector<Tensor> ToTensors(Builder& b, Operands args, DType dtype);

// ElementwiseOf, after CheckBroadcast.
OneResult Emit(Builder& b, DType dtype, const std::vector<Tensor>& inputs, const Formula& f);

// The operands of the call; of those that are lists, item `item`.
std::vector<Operand> OperandsOf(const Call& call, int item = 0);
// The number of results of a foreach call; InvalidArgument when its lists differ in length.
absl::StatusOr<int> ForeachLength(const Call& call);

template <Core core>
Results Single(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(Tensor result, core(b, OperandsOf(call), call.result().dtype));
  return std::vector<Tensor>{std::move(result)};
}

template <Core core>
Results Each(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const int length, ForeachLength(call));
  std::vector<Tensor> results;
  for (int item = 0; item < length; ++item) {
    TENSORD_ASSIGN_OR_RETURN(Tensor result,
                             core(b, OperandsOf(call, item), call.result(item).dtype));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_OPERANDS_H_
