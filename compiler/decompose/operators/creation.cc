// Tensors made of nothing but sizes and numbers, and the triangles cut out of others.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

// Types that a call leaves out are the job's defaults, so the declared type is taken.
DType TypeOfResult(const Call& call, int dtype_position) {
  return call.dtype(dtype_position).value_or(call.result().dtype);
}

Results Filled(Builder& b, const Scalar& value, const Sizes& sizes, DType dtype) {
  for (const Expr& size : sizes) {
    if (sym::Hint(size) < 0) return absl::InvalidArgumentError("a size is negative");
  }
  return std::vector<Tensor>{b.Expand(ScalarTensor(b, value, dtype), sizes)};
}

Scalar Whole(int64_t value) { return {Scalar::kInt, Expr(value), 0}; }

// ---- Templates over the schema: where the sizes (or the tensor with them) and the type stand.

template <int value, int dtype>
Results Zeros(Builder& b, const Call& call) {
  return Filled(b, Whole(value), call.integers(0), TypeOfResult(call, dtype));
}
template <int value, int dtype>
Results ZerosLike(Builder& b, const Call& call) {
  const DType type = call.dtype(dtype).value_or(call.tensor(0).dtype());
  return Filled(b, Whole(value), call.tensor(0).sizes(), type);
}
template <int value, int dtype>
Results NewZeros(Builder& b, const Call& call) {
  const DType type = call.dtype(dtype).value_or(call.tensor(0).dtype());
  return Filled(b, Whole(value), call.integers(1), type);
}

Results Full(Builder& b, const Call& call) {
  return Filled(b, call.scalar(1), call.integers(0), TypeOfResult(call, 2));
}
Results FullLike(Builder& b, const Call& call) {
  const DType type = call.dtype(2).value_or(call.tensor(0).dtype());
  return Filled(b, call.scalar(1), call.tensor(0).sizes(), type);
}
Results NewFull(Builder& b, const Call& call) {
  const DType type = call.dtype(3).value_or(call.tensor(0).dtype());
  return Filled(b, call.scalar(2), call.integers(1), type);
}
Results FillScalar(Builder& b, const Call& call) {
  return Filled(b, call.scalar(1), call.tensor(0).sizes(), call.tensor(0).dtype());
}
Results FillTensor(Builder& b, const Call& call) {
  const Tensor like = call.tensor(0), value = call.tensor(1);
  if (value.rank() != 0) return absl::InvalidArgumentError("fills with a tensor that is no number");
  return std::vector<Tensor>{LazyCopy(b, b.Expand(b.Cast(value, like.dtype()), like.sizes()))};
}
Results Zero(Builder& b, const Call& call) {
  return Filled(b, Whole(0), call.tensor(0).sizes(), call.tensor(0).dtype());
}
Results ScalarAsTensor(Builder& b, const Call& call) {
  return Filled(b, call.scalar(0), {}, TypeOfResult(call, 1));
}

// ---- Sequences

// start + i * step for i in [0, length).
Results IntegerSequence(Builder& b, const Expr& start, const Expr& step, const Expr& length,
                        DType dtype) {
  if (sym::Hint(length) < 0) return absl::InvalidArgumentError("the length is negative");
  return std::vector<Tensor>{
      b.Pointwise(dtype, {length}, {}, 1, [start, step, dtype](Recorder& ops, Index index) {
        return ops.Index(start + index[0] * step, ComputeType(dtype));
      })};
}

Results RealSequence(Builder& b, double start, double step, int64_t length, DType dtype) {
  return std::vector<Tensor>{
      b.Pointwise(dtype, {Expr(length)}, {}, 2, [start, step, dtype](Recorder& ops, Index index) {
        const DType type = IsFloating(dtype) ? ComputeType(dtype) : kFloat64;
        const Value i = ops.Index(index[0], type);
        const Value x = ops.Add(ops.Mul(i, ops.Constant(step, type)), ops.Constant(start, type));
        return ops.Cast(x, ComputeType(dtype));
      })};
}

Results Sequence(Builder& b, const Scalar& start, const Scalar& end, const Scalar& step,
                 DType dtype) {
  const bool whole =
      start.kind != Scalar::kReal && end.kind != Scalar::kReal && step.kind != Scalar::kReal;
  const double each = step.AsDouble(), range = end.AsDouble() - start.AsDouble();
  if (each == 0 || range / each < 0) {
    return absl::InvalidArgumentError("the step does not lead from the start to the end");
  }
  if (whole) {
    const Expr length = each > 0 ? sym::CeilDiv(end.integer - start.integer, step.integer)
                                 : sym::CeilDiv(start.integer - end.integer, -step.integer);
    return IntegerSequence(b, start.integer, step.integer, length, dtype);
  }
  const double length = std::ceil(range / each);
  if (!(length < 1e15)) return absl::InvalidArgumentError("the sequence is too long");
  return RealSequence(b, start.AsDouble(), each, static_cast<int64_t>(length), dtype);
}

Results Arange(Builder& b, const Call& call) {
  return Sequence(b, Whole(0), call.scalar(0), Whole(1), TypeOfResult(call, 1));
}
Results ArangeStart(Builder& b, const Call& call) {
  return Sequence(b, call.scalar(0), call.scalar(1), Whole(1), TypeOfResult(call, 2));
}
Results ArangeStep(Builder& b, const Call& call) {
  return Sequence(b, call.scalar(0), call.scalar(1), call.scalar(2), TypeOfResult(call, 3));
}
Results Iota(Builder& b, const Call& call) {
  return IntegerSequence(b, call.integer(1), call.integer(2), call.integer(0), *call.dtype(3));
}

// From both ends towards the middle, so that both ends are exact.
Results Linspace(Builder& b, const Call& call) {
  const DType dtype = TypeOfResult(call, 3);
  if (!IsFloating(dtype)) return absl::UnimplementedError("linspace of integers");
  const int64_t steps = call.constant(2);
  const double start = call.scalar(0).AsDouble(), end = call.scalar(1).AsDouble();
  if (steps < 0) return absl::InvalidArgumentError("the number of steps is negative");
  if (steps == 1) return Filled(b, call.scalar(0), {Expr(1)}, dtype);
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
  if (sym::Hint(rows) < 0 || sym::Hint(columns) < 0) {
    return absl::InvalidArgumentError("a size is negative");
  }
  return std::vector<Tensor>{
      b.Pointwise(dtype, {rows, columns}, {}, 2, [dtype](Recorder& ops, Index index) {
        const Value same = ops.Compute(Op::k_eq, {ops.Index(index[0]), ops.Index(index[1])});
        return ops.Cast(same, ComputeType(dtype));
      })};
}

Results Eye(Builder& b, const Call& call) {
  return Identity(b, call.integer(0), call.integer(0), TypeOfResult(call, 1));
}
Results EyeRectangle(Builder& b, const Call& call) {
  return Identity(b, call.integer(0), call.integer(1), TypeOfResult(call, 2));
}

// Keeps where column - row <op> diagonal; elements outside are not even read.
template <Op op>
Results Triangle(Builder& b, const Call& call) {
  const Tensor t = call.tensor(0);
  if (t.rank() < 2) return absl::InvalidArgumentError("a triangle needs two dimensions");
  const Expr diagonal = call.integer(1);
  return std::vector<Tensor>{
      b.Pointwise(t.dtype(), t.sizes(), {t}, 3, [t, diagonal](Recorder& ops, Index index) {
        const Value column = ops.Index(index[index.size() - 1]);
        const Value last = ops.Index(index[index.size() - 2] + diagonal);
        const Value zero = ops.ConstantInt(0, ComputeType(t.dtype()));
        return ops.Masked(
            ops.Compute(op, {column, last}), [&] { return t.Load(ops, index); }, zero);
      })};
}

const Operator kOperators[] = {
    {"aten::full", "i[] s d? * * *", Full},
    {"aten::zeros", "i[] d? * * *", Zeros<0, 1>},
    {"aten::ones", "i[] d? * * *", Zeros<1, 1>},
    // What is in an empty tensor is anybody's guess; zeros cost nothing once they are inlined.
    {"aten::empty.memory_format", "i[] d? * * * *", Zeros<0, 1>},
    {"aten::empty_strided", "i[] i[] d? * * *", Zeros<0, 2>},
    {"aten::empty_permuted", "i[] i[] d? * * *", Zeros<0, 2>},
    {"aten::full_like", "T s d? * * * *", FullLike},
    {"aten::zeros_like", "T d? * * * *", ZerosLike<0, 1>},
    {"aten::ones_like", "T d? * * * *", ZerosLike<1, 1>},
    {"aten::empty_like", "T d? * * * *", ZerosLike<0, 1>},
    {"aten::new_full", "T i[] s d? * * *", NewFull},
    {"aten::new_zeros", "T i[] d? * * *", NewZeros<0, 2>},
    {"aten::new_ones", "T i[] d? * * *", NewZeros<1, 2>},
    {"aten::new_empty", "T i[] d? * * *", NewZeros<0, 2>},
    {"aten::new_empty_strided", "T i[] i[] d? * * *", NewZeros<0, 3>},
    {"aten::fill.Scalar", "T s", FillScalar},
    {"aten::fill.Tensor", "T T", FillTensor},
    {"aten::zero", "T", Zero},
    {"aten::scalar_tensor", "s d? * * *", ScalarAsTensor},
    {"aten::arange", "s d? * * *", Arange},
    {"aten::arange.start", "s s d? * * *", ArangeStart},
    {"aten::arange.start_step", "s s s d? * * *", ArangeStep},
    {"prims::iota", "i i i d * *", Iota},
    {"aten::linspace", "s s i d? * * *", Linspace},
    {"aten::eye", "i d? * * *", Eye},
    {"aten::eye.m", "i i d? * * *", EyeRectangle},
    {"aten::tril", "T i", Triangle<Op::k_le>},
    {"aten::triu", "T i", Triangle<Op::k_ge>},
};

}  // namespace

std::span<const Operator> CreationOperators() { return kOperators; }

}  // namespace tensord::compiler
