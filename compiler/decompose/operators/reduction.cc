// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions.
#include <limits>
#include <numeric>

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a reduction is asked for; overloads leave arguments out.
struct Plan {
  Tensor x;
  std::vector<int> dims;
  bool keepdim = false;
  std::optional<DType> dtype;
};

std::vector<int> AllDims(const Tensor& x) {
  std::vector<int> all(x.rank());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The dimensions that `dim` names (a list, one integer or none); all when there are none.
absl::StatusOr<std::vector<int>> DimsOf(const Call& call, const Tensor& x) {
  const std::vector<int64_t> dims =
      call.takes("dim") ? call.constants("dim") : std::vector<int64_t>{};
  if (dims.empty() || x.rank() == 0) return AllDims(x);
  return NormalizeDims(dims, x.rank());
}

absl::StatusOr<Plan> PlanOf(const Call& call) {
  Plan plan{.x = call.tensor("self")};
  TENSORD_ASSIGN_OR_RETURN(plan.dims, DimsOf(call, plan.x));
  if (call.takes("keepdim")) plan.keepdim = call.boolean("keepdim");
  if (call.takes("dtype")) plan.dtype = call.dtype("dtype");
  return plan;
}

Tensor Reduced(Builder& b, ReduceKind kind, const Plan& p, const Tensor& x, DType dtype) {
  return ReduceOver(b, kind, x, p.dims, p.keepdim, dtype);
}

// A result that was computed with kept dimensions, in the form that was asked for.
Tensor Finish(Builder& b, const Plan& p, const Tensor& kept) {
  return p.keepdim ? kept : DropDims(b, kept, p.dims);
}

absl::Status NeedFloat(const Plan& p) {
  if (IsFloating(p.dtype.value_or(p.x.dtype()))) return absl::OkStatus();
  return absl::InvalidArgumentError("needs a floating point dtype");
}

// ---- Sums and products

template <ReduceKind kind>
Results Accumulate(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const bool is_whole = !IsFloating(p.x.dtype()) && !IsComplex(p.x.dtype());
  const DType dtype = p.dtype.value_or(is_whole ? kInt64 : p.x.dtype());
  if (dtype == kBool) {  // asked for: of truth values, whatever the operand's type is
    const auto of_bools = kind == ReduceKind::kSum ? ReduceKind::kAny : ReduceKind::kAll;
    return std::vector<Tensor>{Reduced(b, of_bools, p, b.Cast(p.x, kBool), kBool)};
  }
  const bool has_complex = IsComplex(dtype) || IsComplex(p.x.dtype());
  return std::vector<Tensor>{Reduced(b, kind, p, has_complex ? b.Cast(p.x, dtype) : p.x, dtype)};
}

Results NanSum(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const DType dtype = p.dtype.value_or(IsFloating(p.x.dtype()) ? p.x.dtype() : kInt64);
  if (!IsFloating(p.x.dtype())) {
    return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, p.x, dtype)};
  }
  const Tensor x = Elementwise(b, FloatType(p.x.dtype()), {p.x},
                               [](Elem v) { return Select(IsNan(v), 0.0, v); });
  return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, x, dtype)};
}

Results Mean(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const DType dtype = p.dtype.value_or(p.x.dtype()), compute = ComputeType(dtype);
  if (!IsComplex(dtype)) TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  const bool has_complex = IsComplex(dtype) || IsComplex(p.x.dtype());
  const Tensor x = has_complex ? b.Cast(p.x, dtype) : p.x;
  const Tensor sum = Reduced(b, ReduceKind::kSum, p, x, IsComplex(dtype) ? dtype : compute);
  const Tensor count = NumberOf(b, compute, CountOf(p.x.sizes(), p.dims));
  return std::vector<Tensor>{
      Elementwise(b, dtype, {sum, count}, [](Elem s, Elem n) { return s / n; })};
}

Results CountNonzero(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const Tensor x = Elementwise(b, kBool, {p.x}, [](Elem v) { return NotEqual(v, 0); });
  return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, x, kInt64)};
}

// ---- Extremes and truth

// Eager raises at extremes of nothing, in its own words.
absl::Status NeedElements(const Plan& p) {
  if (sym::ProvablyPositive(CountOf(p.x.sizes(), p.dims))) return absl::OkStatus();
  return absl::UnimplementedError("an extreme of what may have no elements");
}

// Truth values have extremes too.
Tensor Extreme(Builder& b, ReduceKind kind, const Plan& p, const Tensor& x) {
  if (x.dtype() == kBool) {
    kind = kind == ReduceKind::kMax ? ReduceKind::kAny : ReduceKind::kAll;
  }
  return Reduced(b, kind, p, x, x.dtype());
}

template <ReduceKind kind>
Results ExtremeOp(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  TENSORD_RETURN_IF_ERROR(NeedElements(p));
  return std::vector<Tensor>{Extreme(b, kind, p, p.x)};
}

Tensor Position(Builder& b, ReduceKind kind, const Plan& p, const Tensor& x) {
  return Reduced(b, kind, p, x.dtype() == kBool ? b.Cast(x, kInt32) : x, kInt64);
}

// Results: values, indices.
template <ReduceKind kind, ReduceKind position>
Results ExtremeWithIndex(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  TENSORD_RETURN_IF_ERROR(NeedElements(p));
  const Tensor x = RealizeIfExpensive(b, p.x);
  return std::vector<Tensor>{Extreme(b, kind, p, x), Position(b, position, p, x)};
}

// Without dim the position in the flattened tensor.
template <ReduceKind kind>
Results ArgExtreme(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  TENSORD_RETURN_IF_ERROR(NeedElements(p));
  return std::vector<Tensor>{Position(b, kind, p, p.x)};
}

Results AMinMax(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  TENSORD_RETURN_IF_ERROR(NeedElements(p));
  const Tensor x = RealizeIfExpensive(b, p.x);
  return std::vector<Tensor>{Extreme(b, ReduceKind::kMin, p, x),
                             Extreme(b, ReduceKind::kMax, p, x)};
}

template <ReduceKind kind>
Results Truth(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const Tensor x = p.x.dtype() == kBool || IsComplex(p.x.dtype())
                       ? b.Cast(p.x, kBool)
                       : Elementwise(b, kBool, {p.x}, [](Elem v) { return NotEqual(v, 0); });
  const Tensor result = Reduced(b, kind, p, x, kBool);
  // torch keeps uint8 for old code's sake.
  return std::vector<Tensor>{p.x.dtype() == v1::DTYPE_UINT8 ? b.Cast(result, p.x.dtype()) : result};
}

// ---- Moments

enum class Spread { kVar, kStd };

// Whether a sum of squares is to be float64, as eager has it on the CPU: in float32 it overflows
// where its root would not. Squares of float16 do not.
bool HasWideSquares(const Builder& b, DType dtype) {
  return b.device() == v1::DEVICE_TYPE_CPU &&
         (dtype == v1::DTYPE_FLOAT32 || dtype == v1::DTYPE_BFLOAT16);
}

// `correction` is subtracted from the count. Results: the spread and, if wanted, the mean.
Results SpreadOf(Builder& b, const Plan& p, double correction, Spread spread, bool with_mean) {
  TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  const DType dtype = p.x.dtype();
  Tensor x = RealizeIfExpensive(b, p.x);
  if (spread == Spread::kStd && HasWideSquares(b, dtype)) x = b.Cast(x, v1::DTYPE_FLOAT64);
  const Moments moments = MomentsOf(b, x, p.dims);
  const Tensor count = NumberOf(b, FloatType(x.dtype()), CountOf(x.sizes(), p.dims));
  const Tensor result = Elementwise(b, x.dtype(), {moments.squares, count}, [=](Elem m2, Elem n) {
    const Elem var = m2 / Maximum(n - correction, 0);
    return spread == Spread::kStd ? Sqrt(var) : var;
  });
  std::vector<Tensor> results{Finish(b, p, b.Cast(result, dtype))};
  if (!with_mean) return results;
  Tensor mean = b.Cast(moments.mean, dtype);
  if (CountOf(x.sizes(), p.dims).Is(0)) {  // of nothing: not a number
    mean = Elementwise(b, dtype, {mean}, [](Elem sum) { return sum / 0; });
  }
  results.push_back(Finish(b, p, mean));
  return results;
}

template <Spread spread, bool with_mean>
Results SpreadAll(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  return SpreadOf(b, p, call.boolean("unbiased") ? 1 : 0, spread, with_mean);
}

template <Spread spread, bool with_mean>
Results SpreadDim(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  return SpreadOf(b, p, call.boolean("unbiased") ? 1 : 0, spread, with_mean);
}

template <Spread spread, bool with_mean>
Results SpreadCorrection(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  double correction = 1;
  if (call.has("correction")) {
    TENSORD_ASSIGN_OR_RETURN(correction, ConstantNumber(call, "correction"));
  }
  return SpreadOf(b, p, correction, spread, with_mean);
}

// ---- Norms

Tensor NormOf(Builder& b, const Plan& p, double ord) {
  const DType dtype = p.dtype.value_or(p.x.dtype()), compute = ComputeType(dtype);
  const Tensor x = b.Cast(p.x, compute);
  // Of one element it is the magnitude, as in eager: its power might overflow.
  const bool of_one =
      std::all_of(p.dims.begin(), p.dims.end(), [&](int d) { return x.sizes()[d].Is(1); });
  if (of_one && ord != 0) ord = kInfinity;
  if (ord == kInfinity || ord == -kInfinity) {
    const Tensor magnitude = Elementwise(b, compute, {x}, [](Elem v) { return Abs(v); });
    return Reduced(b, ord > 0 ? ReduceKind::kMax : ReduceKind::kMin, p, magnitude, dtype);
  }
  const Tensor powers = Elementwise(b, compute, {x}, [ord](Elem v) {
    if (ord == 0) return NotEqual(v, 0).To(v.dtype());
    if (ord == 1) return Abs(v);
    if (ord == 2) return v * v;
    return Pow(Abs(v), ord);
  });
  const Tensor sum = Reduced(b, ReduceKind::kSum, p, powers, compute);
  return Elementwise(b, dtype, {sum}, [ord](Elem s) {
    if (ord == 0 || ord == 1) return s;
    return ord == 2 ? Sqrt(s) : Pow(s, 1 / ord);
  });
}

absl::StatusOr<double> OrdOf(const Call& call) {
  const std::string_view name = call.takes("ord") ? "ord" : "p";
  if (!call.has(name)) return 2.0;
  return ConstantNumber(call, name);
}

// Of complex numbers: of their magnitudes.
void TakeMagnitudes(Builder& b, Plan* p) {
  if (!IsComplex(p->x.dtype())) return;
  p->x = Elementwise(b, PartType(p->x.dtype()), {p->x.part(0), p->x.part(1)},
                     [](Elem re, Elem im) { return Apply(Op::k_hypot, re, im); });
  if (p->dtype) p->dtype = PartType(*p->dtype);
}

Results Norm(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(Plan p, PlanOf(call));
  TakeMagnitudes(b, &p);
  TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  TENSORD_ASSIGN_OR_RETURN(const double ord, OrdOf(call));
  return std::vector<Tensor>{NormOf(b, p, ord)};
}

Results ForeachNorm(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const double ord, OrdOf(call));
  std::vector<Tensor> results;
  for (const Tensor& x : call.tensors("self")) {
    Plan p{.x = x, .dims = AllDims(x), .dtype = call.dtype("dtype")};
    TENSORD_RETURN_IF_ERROR(NeedFloat(p));
    results.push_back(NormOf(b, p, ord));
  }
  return results;
}

Results LogSumExp(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call));
  const DType dtype = IsFloating(p.x.dtype()) ? p.x.dtype() : kFloat32;
  const Tensor x = RealizeIfExpensive(b, ToFloat(b, p.x));
  const Tensor max = ReduceOver(b, ReduceKind::kMax, x, p.dims, /*keepdim=*/true, x.dtype());
  // An infinite maximum is not subtracted: inf - inf would be NaN.
  const Tensor shift = Elementwise(b, x.dtype(), {max},
                                   [](Elem m) { return Select(Equal(Abs(m), kInfinity), 0.0, m); });
  const Tensor e = Elementwise(b, x.dtype(), {x, shift}, [](Elem v, Elem m) { return Exp(v - m); });
  const Tensor sum = SumKeep(b, e, p.dims);
  return std::vector<Tensor>{
      Finish(b, p, Elementwise(b, dtype, {sum, shift}, [](Elem s, Elem m) { return Log(s) + m; }))};
}

using enum Spread;

constexpr Lowering kReductionLowerings[] = {
    {"aten::sum", Accumulate<ReduceKind::kSum>},
    {"aten::sum.dim_IntList", Accumulate<ReduceKind::kSum>},
    {"aten::prod", Accumulate<ReduceKind::kProd>},
    {"aten::prod.dim_int", Accumulate<ReduceKind::kProd>},
    {"aten::nansum", NanSum},
    {"aten::mean", Mean},
    {"aten::mean.dim", Mean},
    {"aten::count_nonzero", CountNonzero},
    {"aten::count_nonzero.dim_IntList", CountNonzero},
    {"aten::amax", ExtremeOp<ReduceKind::kMax>},
    {"aten::amin", ExtremeOp<ReduceKind::kMin>},
    {"aten::max", ExtremeOp<ReduceKind::kMax>},
    {"aten::min", ExtremeOp<ReduceKind::kMin>},
    {"aten::max.dim", ExtremeWithIndex<ReduceKind::kMax, ReduceKind::kArgMax>},
    {"aten::min.dim", ExtremeWithIndex<ReduceKind::kMin, ReduceKind::kArgMin>},
    {"aten::aminmax", AMinMax},
    {"aten::argmax", ArgExtreme<ReduceKind::kArgMax>},
    {"aten::argmin", ArgExtreme<ReduceKind::kArgMin>},
    {"aten::any", Truth<ReduceKind::kAny>},
    {"aten::any.dim", Truth<ReduceKind::kAny>},
    {"aten::any.dims", Truth<ReduceKind::kAny>},
    {"aten::all", Truth<ReduceKind::kAll>},
    {"aten::all.dim", Truth<ReduceKind::kAll>},
    {"aten::all.dims", Truth<ReduceKind::kAll>},
    {"aten::var", SpreadAll<kVar, false>},
    {"aten::var.dim", SpreadDim<kVar, false>},
    {"aten::var.correction", SpreadCorrection<kVar, false>},
    {"aten::var_mean", SpreadAll<kVar, true>},
    {"aten::var_mean.dim", SpreadDim<kVar, true>},
    {"aten::var_mean.correction", SpreadCorrection<kVar, true>},
    {"aten::std", SpreadAll<kStd, false>},
    {"aten::std.dim", SpreadDim<kStd, false>},
    {"aten::std.correction", SpreadCorrection<kStd, false>},
    {"aten::std_mean", SpreadAll<kStd, true>},
    {"aten::std_mean.dim", SpreadDim<kStd, true>},
    {"aten::std_mean.correction", SpreadCorrection<kStd, true>},
    {"aten::norm.Scalar", Norm},
    {"aten::norm.ScalarOpt_dtype", Norm},
    {"aten::norm.ScalarOpt_dim", Norm},
    {"aten::norm.ScalarOpt_dim_dtype", Norm},
    {"aten::linalg_vector_norm", Norm},
    {"aten::_foreach_norm.Scalar", ForeachNorm},
    {"aten::logsumexp", LogSumExp},
};

}  // namespace

std::span<const Lowering> ReductionLowerings() { return kReductionLowerings; }

}  // namespace tensord::compiler
