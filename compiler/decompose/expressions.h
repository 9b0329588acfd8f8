// SPDX-License-Identifier: Apache-2.0
// Arithmetic on single elements, and on tensors element by element, as formulas:
//
//   Tensor silu = Elementwise(b, x.dtype(), {x}, [](Elem v) { return v * Sigmoid(v); });
//
// Each operand is loaded once per element and cast to its compute type (float32 for narrow floats),
// the formula runs there, and its result is rounded to the wanted type when it is stored.
#ifndef TENSORD_COMPILER_DECOMPOSE_EXPRESSIONS_H_
#define TENSORD_COMPILER_DECOMPOSE_EXPRESSIONS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// One element's value inside a body.
struct Elem {
  Recorder* ops = nullptr;
  Value value;

  DType dtype() const { return value.dtype; }
  // A constant of this element's type.
  Elem Like(double number) const { return {ops, ops->Constant(number, value.dtype)}; }
  Elem To(DType dtype) const { return {ops, ops->Cast(value, dtype)}; }
  Elem Stored(DType dtype) const { return {ops, ops->Stored(value, dtype)}; }
  Elem Nonzero() const { return {ops, ops->Nonzero(value)}; }
  Elem Checked(DataCheck check) const { return {ops, ops->Checked(check, value)}; }
};

// Every scalar operation of loop_ir/ops.def in a formula: Apply(Op::k_erfc, x). What formulas use
// often has a name below. Operands of different types meet in the promoted one; a number takes the
// type of the element beside it.
Elem Apply(Op op, Elem x);
Elem Apply(Op op, Elem x, Elem y);

inline Elem operator-(Elem x) { return Apply(Op::k_neg, x); }

#define TENSORD_ELEM_BINARY(name, op)                                        \
  inline Elem name(Elem x, Elem y) { return Apply(Op::op, x, y); }           \
  inline Elem name(Elem x, double y) { return Apply(Op::op, x, x.Like(y)); } \
  inline Elem name(double x, Elem y) { return Apply(Op::op, y.Like(x), y); }
TENSORD_ELEM_BINARY(operator+, k_add)
TENSORD_ELEM_BINARY(operator-, k_sub)
TENSORD_ELEM_BINARY(operator*, k_mul)
TENSORD_ELEM_BINARY(operator/, k_div)
TENSORD_ELEM_BINARY(operator<, k_lt)
TENSORD_ELEM_BINARY(operator<=, k_le)
TENSORD_ELEM_BINARY(operator>, k_gt)
TENSORD_ELEM_BINARY(operator>=, k_ge)
TENSORD_ELEM_BINARY(Equal, k_eq)
TENSORD_ELEM_BINARY(NotEqual, k_ne)
TENSORD_ELEM_BINARY(Minimum, k_minimum)
TENSORD_ELEM_BINARY(Maximum, k_maximum)
TENSORD_ELEM_BINARY(Pow, k_pow)
#undef TENSORD_ELEM_BINARY

#define TENSORD_ELEM_UNARY(name, op) \
  inline Elem name(Elem x) { return Apply(Op::op, x); }
TENSORD_ELEM_UNARY(Abs, k_abs)
TENSORD_ELEM_UNARY(Sqrt, k_sqrt)
TENSORD_ELEM_UNARY(Rsqrt, k_rsqrt)
TENSORD_ELEM_UNARY(Reciprocal, k_reciprocal)
TENSORD_ELEM_UNARY(Exp, k_exp)
TENSORD_ELEM_UNARY(Expm1, k_expm1)
TENSORD_ELEM_UNARY(Log, k_log)
TENSORD_ELEM_UNARY(Log1p, k_log1p)
TENSORD_ELEM_UNARY(Tanh, k_tanh)
TENSORD_ELEM_UNARY(Erf, k_erf)
TENSORD_ELEM_UNARY(NormalCdf, k_normal_cdf)
TENSORD_ELEM_UNARY(NormalPdf, k_normal_pdf)
TENSORD_ELEM_UNARY(Sigmoid, k_sigmoid)
TENSORD_ELEM_UNARY(Sign, k_sign)
TENSORD_ELEM_UNARY(Relu, k_relu)
TENSORD_ELEM_UNARY(IsNan, k_isnan)
TENSORD_ELEM_UNARY(Not, k_logical_not)
#undef TENSORD_ELEM_UNARY

inline Elem And(Elem x, Elem y) { return Apply(Op::k_logical_and, x, y); }
inline Elem Or(Elem x, Elem y) { return Apply(Op::k_logical_or, x, y); }
inline Elem Clamp(Elem x, double low, double high) { return Minimum(Maximum(x, low), high); }
Elem Select(Elem condition, Elem a, Elem b);
inline Elem Select(Elem condition, double a, Elem b) { return Select(condition, b.Like(a), b); }
inline Elem Select(Elem condition, Elem a, double b) { return Select(condition, a, a.Like(b)); }
// A truth value: every condition holds. Requires: at least one.
Value AllOf(Recorder& ops, const std::vector<Value>& conditions);
// log(1 + exp(x)) without overflow.
Elem SoftplusOf(Elem x);
// log(sigmoid(x)) without overflow.
Elem LogSigmoidOf(Elem x);

// ---- Tensors

using Formula = std::function<Elem(std::span<const Elem>)>;

// A lazy tensor of the broadcast sizes of `inputs`, which must agree (CheckBroadcast). The cost is
// counted from the formula itself.
Tensor ElementwiseOf(Builder& b, DType dtype, const std::vector<Tensor>& inputs, const Formula& f);

// The same for a formula with one parameter per input.
template <size_t N, typename F>
Tensor Elementwise(Builder& b, DType dtype, const Tensor (&inputs)[N], F f) {
  return ElementwiseOf(b, dtype, std::vector<Tensor>(inputs, inputs + N),
                       [f](std::span<const Elem> v) {
                         return [&]<size_t... I>(std::index_sequence<I...>) {
                           return f(v[I]...);
                         }(std::make_index_sequence<N>());
                       });
}

// InvalidArgument unless the sizes of all tensors broadcast together.
absl::Status CheckBroadcast(const std::vector<Tensor>& tensors);
// InvalidArgument unless `t` has these sizes (equal expressions).
absl::Status CheckSizes(const char* what, const Tensor& t, const Sizes& sizes);

// Whether computing a tensor again costs more than reading it back.
bool IsExpensive(const Tensor& t);
// What several loops read: in memory where computing it again is expensive.
Tensor RealizeIfExpensive(Builder& b, const Tensor& t);
// The same for an argument, which keeps the type and the layout that eager gives it.
Tensor RealizeArgumentIfExpensive(Builder& b, const Call& call, std::string_view name);
// Whether a float32 is computed again by each reader of its rows along `dim`: those of a GPU that
// are too long for the registers of a block, so that who reads them again reads memory, of values
// that cost little. Logits that are bounded by a hyperbolic tangent are such; in memory they would
// be twice as large as the product that they are made of.
bool IsComputedAgainInRows(const Builder& b, const Tensor& t, int dim);

// The type in which a decomposed operator computes: the compute type, float32 for integers and
// bools.
DType FloatType(DType dtype);
// The cast to FloatType, lazy.
Tensor ToFloat(Builder& b, const Tensor& t);

// A scalar argument that must be a known number; Unimplemented (so: a library call) when symbolic.
absl::StatusOr<double> ConstantNumber(const Call& call, std::string_view name);
// The same for all arguments that are one number each, in the order of the schema.
absl::StatusOr<std::vector<double>> ConstantNumbers(const Call& call);

// ---- Reductions

// How many elements are reduced away; `dims` non-negative, empty means all.
Expr CountOf(const Sizes& sizes, const std::vector<int>& dims);
// An expression as a zero-dim tensor of a type.
Tensor NumberOf(Builder& b, DType dtype, const Expr& e);
// Builder::Reduce where a zero-dim tensor may name its dimension 0, as in torch.
Tensor ReduceOver(Builder& b, ReduceKind kind, const Tensor& t, std::vector<int> dims, bool keepdim,
                  DType dtype);
// Sum over dims in the compute type, kept dims.
Tensor SumKeep(Builder& b, const Tensor& t, const std::vector<int>& dims);
// Mean and sum of squared differences from it, in the float type of `t`, kept dims. Two passes over
// innermost dims (exact, and one fused group); Welford's method otherwise.
struct Moments {
  Tensor mean;
  Tensor squares;
};
Moments MomentsOf(Builder& b, const Tensor& t, const std::vector<int>& dims);
// Drops dimensions that were kept by a reduction.
Tensor DropDims(Builder& b, const Tensor& t, const std::vector<int>& dims);
// A tensor [C] as [1, C, 1, ...] of this rank.
Tensor AlongDim(Builder& b, const Tensor& t, int dim, int rank);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_EXPRESSIONS_H_
