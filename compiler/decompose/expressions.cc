// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/expressions.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/decompose/layout.h"

namespace tensord::compiler {
namespace {

// What one element of a formula costs, counted on a recording that is thrown away.
int CostOf(const std::vector<Tensor>& inputs, const Formula& f) {
  Block block;
  Recorder ops(&block);
  std::vector<Elem> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back({&ops, ops.Load(-1, inputs[i].dtype(), Expr(static_cast<int64_t>(i)))});
  }
  f(values);
  int cost = 0;
  for (const Inst& inst : block.insts) {
    if (inst.kind == InstKind::kCompute) cost += InfoOf(inst.op).cost;
    if (inst.kind == InstKind::kCast || inst.kind == InstKind::kRound) ++cost;
  }
  return cost;
}

}  // namespace

Elem Apply(Op op, Elem x) { return {x.ops, x.ops->Compute(op, {x.value})}; }

Elem Apply(Op op, Elem x, Elem y) {
  if (x.dtype() != y.dtype()) {
    const DType common = PromoteTypes(x.dtype(), y.dtype());
    x = x.To(common);
    y = y.To(common);
  }
  return {x.ops, x.ops->Compute(op, {x.value, y.value})};
}

Elem Select(Elem condition, Elem a, Elem b) {
  if (condition.dtype() != kBool) condition = NotEqual(condition, 0);
  if (a.dtype() != b.dtype()) {
    const DType common = PromoteTypes(a.dtype(), b.dtype());
    a = a.To(common);
    b = b.To(common);
  }
  return {a.ops, a.ops->Where(condition.value, a.value, b.value)};
}

Elem SoftplusOf(Elem x) { return Relu(x) + Log1p(Exp(-Abs(x))); }

Elem LogSigmoidOf(Elem x) { return Minimum(x, 0) - Log1p(Exp(-Abs(x))); }

Tensor ElementwiseOf(Builder& b, DType dtype, const std::vector<Tensor>& inputs, const Formula& f) {
  Sizes sizes = inputs[0].sizes();
  for (const Tensor& t : inputs) {
    std::optional<Sizes> common = BroadcastSizes(sizes, t.sizes());
    TENSORD_CHECK(common.has_value(), "operands of a formula must broadcast");
    sizes = *std::move(common);
  }
  std::vector<Tensor> operands;
  for (const Tensor& t : inputs) {
    operands.push_back(SameSizes(t.sizes(), sizes) ? t : b.Expand(t, sizes));
  }
  Body body = [operands, f, dtype](Recorder& ops, Index index) {
    std::vector<Elem> values;
    for (const Tensor& t : operands) values.push_back({&ops, t.Load(ops, index)});
    // Rounded to a narrow float only when stored, as Builder::Map does.
    return ops.Cast(f(values).value, ComputeType(dtype));
  };
  return b.Pointwise(dtype, sizes, operands, CostOf(inputs, f), std::move(body));
}

absl::Status CheckBroadcast(const std::vector<Tensor>& tensors) {
  Sizes sizes;
  for (const Tensor& t : tensors) {
    std::optional<Sizes> common = BroadcastSizes(sizes, t.sizes());
    if (!common) {
      return absl::InvalidArgumentError(
          absl::StrCat("sizes do not broadcast together: ", sym::ToString(sizes), " and ",
                       sym::ToString(t.sizes())));
    }
    sizes = *std::move(common);
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const char* what, const Tensor& t, const Sizes& sizes) {
  if (MayBeSameSizes(t.sizes(), sizes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " has sizes ", sym::ToString(t.sizes()),
                                                 " where ", sym::ToString(sizes), " is needed"));
}

bool IsExpensive(const Tensor& t) { return !t.view() && (t.cost() >= 10 || t.reads() >= 3); }

bool IsComputedAgainInRows(const Builder& b, const Tensor& t, int dim) {
  constexpr int64_t kLeastLongRow = 16384;
  constexpr int kMostCost = 60, kMostReads = 2;
  return b.device() == v1::DEVICE_TYPE_CUDA && t.rank() > 0 && t.dtype() == kFloat32 &&
         t.cost() <= kMostCost && t.reads() <= kMostReads &&
         sym::Hint(t.sizes()[dim]) >= kLeastLongRow;
}

Value AllOf(Recorder& ops, const std::vector<Value>& conditions) {
  Value all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) {
    all = ops.Compute(Op::k_logical_and, {all, conditions[i]});
  }
  return all;
}

Tensor RealizeIfExpensive(Builder& b, const Tensor& t) {
  if (!IsExpensive(t)) return t;
  return IsComplex(t.dtype()) ? b.RealizeParts(t) : b.Realize(t);
}

Tensor RealizeArgumentIfExpensive(Builder& b, const Call& call, std::string_view name) {
  const Tensor t = call.tensor(name);
  return IsExpensive(t) ? b.RealizeAs(t, BufferStrides(call.argument_type(name))) : t;
}

DType FloatType(DType dtype) { return IsFloating(dtype) ? ComputeType(dtype) : kFloat32; }

Tensor ToFloat(Builder& b, const Tensor& t) { return b.Cast(t, FloatType(t.dtype())); }

absl::StatusOr<double> ConstantNumber(const Call& call, std::string_view name) {
  const Scalar s = call.scalar(name);
  if (!s.IsKnown()) {
    return absl::UnimplementedError("a symbolic number where a constant is expected");
  }
  return s.AsDouble();
}

absl::StatusOr<std::vector<double>> ConstantNumbers(const Call& call) {
  std::vector<double> numbers;
  for (const Parameter& parameter : call.op().parameters) {
    const bool is_number =
        parameter.type == ArgumentType::kNumber || parameter.type == ArgumentType::kReal;
    if (!is_number || parameter.list || !call.has(parameter.name)) continue;
    TENSORD_ASSIGN_OR_RETURN(const double number, ConstantNumber(call, parameter.name));
    numbers.push_back(number);
  }
  return numbers;
}

Expr CountOf(const Sizes& sizes, const std::vector<int>& dims) {
  if (dims.empty()) return sym::Product(sizes);
  Sizes reduced;
  for (int d : dims) reduced.push_back(sizes[d]);
  return sym::Product(reduced);
}

Tensor NumberOf(Builder& b, DType dtype, const Expr& e) {
  return b.Pointwise(dtype, {}, {}, 1,
                     [dtype, e](Recorder& ops, Index) { return ops.Index(e, dtype); });
}

Tensor ReduceOver(Builder& b, ReduceKind kind, const Tensor& t, std::vector<int> dims, bool keepdim,
                  DType dtype) {
  if (t.rank() > 0) return b.Reduce(kind, t, std::move(dims), keepdim, dtype);
  return b.Reduce(kind, t, {}, /*keepdim=*/false, dtype);
}

Tensor SumKeep(Builder& b, const Tensor& t, const std::vector<int>& dims) {
  return ReduceOver(b, ReduceKind::kSum, t, dims, /*keepdim=*/true, FloatType(t.dtype()));
}

Moments MomentsOf(Builder& b, const Tensor& t, const std::vector<int>& dims) {
  const Tensor x = ToFloat(b, t);
  std::vector<int> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  bool innermost = !sorted.empty() || t.rank() == 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    innermost &= sorted[i] == t.rank() - static_cast<int>(sorted.size() - i);
  }
  if (t.view() && t.rank() > 0 && !t.view()->strides.back().Is(1)) innermost = false;
  if (!innermost && t.rank() > 0) {
    auto [mean, squares] = b.ReducePair(ReduceKind::kWelford, x, dims, /*keepdim=*/true);
    return {mean, squares};
  }
  const Tensor count = NumberOf(b, x.dtype(), CountOf(t.sizes(), dims));
  const Tensor mean = Elementwise(b, x.dtype(), {SumKeep(b, x, dims), count},
                                  [](Elem sum, Elem n) { return sum / n; });
  const Tensor squares = Elementwise(b, x.dtype(), {x, mean}, [](Elem v, Elem m) {
    const Elem d = v - m;
    return d * d;
  });
  return {mean, SumKeep(b, squares, dims)};
}

Tensor DropDims(Builder& b, const Tensor& t, const std::vector<int>& dims) {
  std::vector<int> sorted = dims;
  std::sort(sorted.rbegin(), sorted.rend());
  Tensor result = t;
  for (int d : sorted) result = b.Squeeze(result, d);
  return result;
}

Tensor AlongDim(Builder& b, const Tensor& t, int dim, int rank) {
  Sizes sizes(rank, Expr(1));
  sizes[dim] = sym::Product(t.sizes());
  return b.Reshape(t, sizes);
}

}  // namespace tensord::compiler
