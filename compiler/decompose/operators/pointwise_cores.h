// SPDX-License-Identifier: Apache-2.0
// The formulas behind the pointwise table (pointwise.cc): each takes its operands in the order of
// the operator's schema. Types follow torch's promotion unless said otherwise.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_CORES_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_CORES_H_

#include "compiler/decompose/operators/pointwise_operands.h"

namespace tensord::compiler {

// One scalar operation in the operand's type, or, for integers, in the declared floating type.
OneResult FloatUnary(Builder& b, Operands args, DType declared, Op op);
// One scalar operation in the operand's own type; integers and bools pass unchanged (floor, round).
OneResult RoundingUnary(Builder& b, Operands args, DType declared, Op op);
OneResult SameUnary(Builder& b, Operands args, DType declared, Op op);
// One scalar operation of two operands in their common (floating) type.
OneResult SameBinary(Builder& b, Operands args, DType declared, Op op);
OneResult FloatBinary(Builder& b, Operands args, DType declared, Op op);
// Truth values.
OneResult Comparison(Builder& b, Operands args, DType declared, Op op);
OneResult Logical(Builder& b, Operands args, DType declared, Op op);  // one or two operands
// `logical` is used for bools, where bits above the lowest must stay clear.
OneResult Bitwise(Builder& b, Operands args, DType declared, Op op, Op logical);

// The templates bind an operation, so that a table can name the result as a Core.
template <Op op>
OneResult Float1(Builder& b, Operands args, DType d) {
  return FloatUnary(b, args, d, op);
}
template <Op op>
OneResult Round1(Builder& b, Operands args, DType d) {
  return RoundingUnary(b, args, d, op);
}
template <Op op>
OneResult Same1(Builder& b, Operands args, DType d) {
  return SameUnary(b, args, d, op);
}
template <Op op>
OneResult Same2(Builder& b, Operands args, DType d) {
  return SameBinary(b, args, d, op);
}
template <Op op>
OneResult Float2(Builder& b, Operands args, DType d) {
  return FloatBinary(b, args, d, op);
}
template <Op op>
OneResult Compare(Builder& b, Operands args, DType d) {
  return Comparison(b, args, d, op);
}
template <Op op>
OneResult Logic(Builder& b, Operands args, DType d) {
  return Logical(b, args, d, op);
}
template <Op op, Op logical>
OneResult Bits(Builder& b, Operands args, DType d) {
  return Bitwise(b, args, d, op, logical);
}

// self + alpha * other; alpha may be left out.
OneResult AddCore(Builder& b, Operands args, DType declared);
OneResult SubCore(Builder& b, Operands args, DType declared);   // self - alpha * other
OneResult RsubCore(Builder& b, Operands args, DType declared);  // other - alpha * self
OneResult MulCore(Builder& b, Operands args, DType declared);
OneResult DivCore(Builder& b, Operands args, DType declared);
OneResult TruncDivCore(Builder& b, Operands args, DType declared);
OneResult FloorDivCore(Builder& b, Operands args, DType declared);
OneResult FmodCore(Builder& b, Operands args, DType declared);       // sign of the dividend
OneResult RemainderCore(Builder& b, Operands args, DType declared);  // sign of the divisor
OneResult PowCore(Builder& b, Operands args, DType declared);
OneResult SquareCore(Builder& b, Operands args, DType declared);
OneResult FracCore(Builder& b, Operands args, DType declared);
OneResult XlogyCore(Builder& b, Operands args, DType declared);
// Like minimum and maximum, but a number wins over NaN.
OneResult FminCore(Builder& b, Operands args, DType declared);
OneResult FmaxCore(Builder& b, Operands args, DType declared);
OneResult ClampCore(Builder& b, Operands args, DType declared);  // self, min or none, max or none
OneResult WhereCore(Builder& b, Operands args, DType declared);
OneResult MaskedFillCore(Builder& b, Operands args, DType declared);
OneResult LerpCore(Builder& b, Operands args, DType declared);
OneResult AddcmulCore(Builder& b, Operands args, DType declared);
OneResult FmaCore(Builder& b, Operands args, DType declared);
OneResult AddcdivCore(Builder& b, Operands args, DType declared);
OneResult IsnanCore(Builder& b, Operands args, DType declared);
OneResult IsinfCore(Builder& b, Operands args, DType declared);
OneResult IsfiniteCore(Builder& b, Operands args, DType declared);
OneResult NanToNumCore(Builder& b, Operands args, DType declared);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_POINTWISE_CORES_H_
