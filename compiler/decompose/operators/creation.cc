// SPDX-License-Identifier: Apache-2.0
// Tensors made of nothing but sizes and numbers, and the triangles cut out of others.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/lowering.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Types that a call leaves out are the job's defaults, so the declared type is taken.
DType TypeOfResult(const Call& call) { return call.dtype("dtype").value_or(call.result().dtype); }

Results Filled(Builder& b, const Scalar& value, const Sizes& sizes, DType dtype) {
  for (const Expr& size : sizes) {
    if (!sym::MayBeSize(size)) return absl::InvalidArgumentError("a size is negative");
  }
  return std::vector<Tensor>{b.Expand(ScalarTensor(b, value, dtype), sizes)};
}

Scalar Whole(int64_t value) { return {Scalar::kInt, Expr(value), 0}; }

// ---- Of one number

template <int value>
Results Zeros(Builder& b, const Call& call) {
  return Filled(b, Whole(value), call.integers("size"), TypeOfResult(call));
}
template <int value>
Results ZerosLike(Builder& b, const Call& call) {
  const DType type = call.dtype("dtype").value_or(call.tensor("self").dtype());
  return Filled(b, Whole(value), call.tensor("self").sizes(), type);
}
template <int value>
Results NewZeros(Builder& b, const Call& call) {
  const DType type = call.dtype("dtype").value_or(call.tensor("self").dtype());
  return Filled(b, Whole(value), call.integers("size"), type);
}

Results Full(Builder& b, const Call& call) {
  return Filled(b, call.scalar("fill_value"), call.integers("size"), TypeOfResult(call));
}
Results FullLike(Builder& b, const Call& call) {
  const DType type = call.dtype("dtype").value_or(call.tensor("self").dtype());
  return Filled(b, call.scalar("fill_value"), call.tensor("self").sizes(), type);
}
Results NewFull(Builder& b, const Call& call) {
  const DType type = call.dtype("dtype").value_or(call.tensor("self").dtype());
  return Filled(b, call.scalar("fill_value"), call.integers("size"), type);
}
Results FillScalar(Builder& b, const Call& call) {
  return Filled(b, call.scalar("value"), call.tensor("self").sizes(), call.tensor("self").dtype());
}
Results FillTensor(Builder& b, const Call& call) {
  const Tensor like = call.tensor("self"), value = call.tensor("value");
  if (value.rank() != 0) return absl::InvalidArgumentError("fills with a tensor that is no number");
  return std::vector<Tensor>{LazyCopy(b, b.Expand(b.Cast(value, like.dtype()), like.sizes()))};
}
Results Zero(Builder& b, const Call& call) {
  return Filled(b, Whole(0), call.tensor("self").sizes(), call.tensor("self").dtype());
}
Results ScalarAsTensor(Builder& b, const Call& call) {
  return Filled(b, call.scalar("s"), {}, TypeOfResult(call));
}

// ---- Sequences

// start + i * step for i in [0, length).
Results IntegerSequence(Builder& b, const Expr& start, const Expr& step, const Expr& length,
                        DType dtype) {
  if (!sym::MayBeSize(length)) return absl::InvalidArgumentError("the length is negative");
  return std::vector<Tensor>{
      b.Pointwise(dtype, {length}, {}, 1, [start, step, dtype](Recorder& ops, Index index) {
        return ops.Index(start + index[0] * step, ComputeType(dtype));
      })};
}

Results RealSequence(Builder& b, double start, double step, int64_t length, DType dtype) {
  return std::vector<Tensor>{
      b.Pointwise(dtype, {Expr(length)}, {}, 2, [start, step, dtype](Recorder& ops, Index index) {
        const DType type = ComputeType(dtype);
        const Value i = ops.Index(index[0], type);
        return ops.Add(ops.Mul(i, ops.Constant(step, type)), ops.Constant(start, type));
      })};
}

absl::Status NoWay() {
  return absl::InvalidArgumentError("the step does not lead from the start to the end");
}

// Integers from real bounds: start and step without their fractions, as eager has them. So is the
// end of int64, which the length of the others follows as it is.
Results TruncatedSequence(Builder& b, double start, double end, double step, int64_t length,
                          DType dtype) {
  const auto most = static_cast<double>(std::numeric_limits<int64_t>::max());
  for (const double number : {start, end, step}) {
    if (!(std::abs(number) < most)) return absl::InvalidArgumentError("a bound is too large");
  }
  if (!(std::abs(end - start) < most)) return absl::InvalidArgumentError("it is too long");
  const auto first = static_cast<int64_t>(start), by = static_cast<int64_t>(step);
  if (dtype == kInt64) {
    if (by == 0) return NoWay();
    const int64_t span = static_cast<int64_t>(end) - first;
    length = by > 0 ? sym::CeilDiv(span, by) : sym::CeilDiv(-span, -by);
  }
  return IntegerSequence(b, Expr(first), Expr(by), Expr(length), dtype);
}

Results Sequence(Builder& b, const Scalar& start, const Scalar& end, const Scalar& step,
                 DType dtype) {
  // Which eager refuses in its own words.
  if (dtype == kBool) return absl::UnimplementedError("a sequence of truth values");
  if (IsComplex(dtype)) return absl::UnimplementedError("a sequence of complex numbers");
  const bool whole =
      start.kind != Scalar::kReal && end.kind != Scalar::kReal && step.kind != Scalar::kReal;
  if (whole) {
    const auto goes_down = sym::IsNegative(step.integer);
    if (!goes_down) return absl::UnimplementedError("data decides the direction of a sequence");
    const Expr span = *goes_down ? start.integer - end.integer : end.integer - start.integer;
    if (!sym::MayBeSize(span) || step.integer.Is(0)) return NoWay();
    const Expr length = sym::CeilDiv(span, *goes_down ? -step.integer : step.integer);
    return IntegerSequence(b, start.integer, step.integer, length, dtype);
  }
  if (!start.IsKnown() || !end.IsKnown() || !step.IsKnown())
    return absl::UnimplementedError("a symbolic number in a sequence of real ones");
  const double each = step.AsDouble(), range = end.AsDouble() - start.AsDouble();
  if (each == 0 || range / each < 0) return NoWay();
  const double length = std::ceil(range / each);
  if (!(length < 1e15)) return absl::InvalidArgumentError("the sequence is too long");
  const auto count = static_cast<int64_t>(length);
  if (IsFloating(dtype)) return RealSequence(b, start.AsDouble(), each, count, dtype);
  return TruncatedSequence(b, start.AsDouble(), end.AsDouble(), each, count, dtype);
}

Results Arange(Builder& b, const Call& call) {
  return Sequence(b, Whole(0), call.scalar("end"), Whole(1), TypeOfResult(call));
}
Results ArangeStart(Builder& b, const Call& call) {
  return Sequence(b, call.scalar("start"), call.scalar("end"), Whole(1), TypeOfResult(call));
}
Results ArangeStep(Builder& b, const Call& call) {
  return Sequence(b, call.scalar("start"), call.scalar("end"), call.scalar("step"),
                  TypeOfResult(call));
}
Results Iota(Builder& b, const Call& call) {
  return IntegerSequence(b, call.integer("start"), call.integer("step"), call.integer("length"),
                         *call.dtype("dtype"));
}

// From both ends towards the middle, so that both ends are exact.
Results Linspace(Builder& b, const Call& call) {
  const DType dtype = TypeOfResult(call);
  if (!IsFloating(dtype)) return absl::UnimplementedError("linspace of integers");
  const int64_t steps = call.constant("steps");
  TENSORD_ASSIGN_OR_RETURN(const double start, ConstantNumber(call, "start"));
  TENSORD_ASSIGN_OR_RETURN(const double end, ConstantNumber(call, "end"));
  if (steps < 0) return absl::InvalidArgumentError("the number of steps is negative");
  if (steps == 1) return Filled(b, call.scalar("start"), {Expr(1)}, dtype);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  return std::vector<Tensor>{
      b.Pointwise(dtype, {Expr(steps)}, {}, 5, [=](Recorder& ops, Index index) {
        const DType type = ComputeType(dtype);
        const Value each = ops.Constant(step, type);
        const Value up =
            ops.Add(ops.Constant(start, type), ops.Mul(each, ops.Index(index[0], type)));
        const Value back = ops.Index(Expr(steps - 1) - index[0], type);
        const Value down = ops.Sub(ops.Constant(end, type), ops.Mul(each, back));
        const Value first_half =
            ops.Compute(Op::k_lt, {ops.Index(index[0]), ops.ConstantInt(steps / 2, kInt64)});
        return ops.Where(first_half, up, down);
      })};
}

// ---- Diagonals and triangles

Results Identity(Builder& b, const Expr& rows, const Expr& columns, DType dtype) {
  if (!sym::MayBeSize(rows) || !sym::MayBeSize(columns)) {
    return absl::InvalidArgumentError("a size is negative");
  }
  const DType part = PartType(dtype);
  const Tensor ones = b.Pointwise(part, {rows, columns}, {}, 2, [part](Recorder& ops, Index index) {
    const Value same = ops.Compute(Op::k_eq, {ops.Index(index[0]), ops.Index(index[1])});
    return ops.Cast(same, ComputeType(part));
  });
  return std::vector<Tensor>{b.Cast(ones, dtype)};
}

Results Eye(Builder& b, const Call& call) {
  return Identity(b, call.integer("n"), call.integer("n"), TypeOfResult(call));
}
Results EyeRectangle(Builder& b, const Call& call) {
  return Identity(b, call.integer("n"), call.integer("m"), TypeOfResult(call));
}

// Keeps where column - row <op> diagonal; elements outside are not even read.
template <Op op>
Results Triangle(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  if (t.rank() < 2) return absl::InvalidArgumentError("a triangle needs two dimensions");
  const Expr diagonal = call.integer("diagonal");
  return std::vector<Tensor>{
      b.Pointwise(t.dtype(), t.sizes(), {t}, 3, [t, diagonal](Recorder& ops, Index index) {
        const Value column = ops.Index(index[index.size() - 1]);
        const Value last = ops.Index(index[index.size() - 2] + diagonal);
        const Value zero = ops.ConstantInt(0, ComputeType(t.dtype()));
        return ops.Masked(
            ops.Compute(op, {column, last}), [&] { return t.Load(ops, index); }, zero);
      })};
}

const Lowering kCreationLowerings[] = {
    {"aten::full", Full},
    {"aten::zeros", Zeros<0>},
    {"aten::ones", Zeros<1>},
    // What is in an empty tensor is anybody's guess; zeros cost nothing once they are inlined.
    {"aten::empty.memory_format", Zeros<0>},
    {"aten::empty_strided", Zeros<0>},
    {"aten::empty_permuted", Zeros<0>},
    {"aten::full_like", FullLike},
    {"aten::zeros_like", ZerosLike<0>},
    {"aten::ones_like", ZerosLike<1>},
    {"aten::empty_like", ZerosLike<0>},
    {"aten::new_full", NewFull},
    {"aten::new_zeros", NewZeros<0>},
    {"aten::new_ones", NewZeros<1>},
    {"aten::new_empty", NewZeros<0>},
    {"aten::new_empty_strided", NewZeros<0>},
    {"aten::fill.Scalar", FillScalar},
    {"aten::fill.Tensor", FillTensor},
    {"aten::zero", Zero},
    {"aten::scalar_tensor", ScalarAsTensor},
    {"aten::arange", Arange},
    {"aten::arange.start", ArangeStart},
    {"aten::arange.start_step", ArangeStep},
    {"prims::iota", Iota},
    {"aten::linspace", Linspace},
    {"aten::eye", Eye},
    {"aten::eye.m", EyeRectangle},
    {"aten::tril", Triangle<Op::k_le>},
    {"aten::triu", Triangle<Op::k_ge>},
};

}  // namespace

std::span<const Lowering> CreationLowerings() { return kCreationLowerings; }

}  // namespace tensord::compiler
