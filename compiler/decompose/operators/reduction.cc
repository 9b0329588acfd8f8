// Reductions over dimensions.
#include <limits>
#include <numeric>

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The dimensions named by argument `i` (a list, one integer or none); all when there are none.
absl::StatusOr<std::vector<int>> DimsOf(const Call& call, int i, bool is_list) {
  const int rank = call.tensor(0).rank();
  std::vector<int64_t> dims;
  if (call.has(i)) dims = is_list ? call.constants(i) : std::vector<int64_t>{call.constant(i)};
  if (dims.empty() || rank == 0) {
    std::vector<int> all(rank);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  return NormalizeDims(dims, rank);
}

// What varies between the overloads of one reduction: where its arguments are.
struct Where {
  int dims = -1;  // -1: over everything
  bool list = true;
  int keepdim = -1;
  int dtype = -1;
};

struct Plan {
  Tensor x;
  std::vector<int> dims;
  bool keepdim;
  std::optional<DType> dtype;
};

absl::StatusOr<Plan> PlanOf(const Call& call, const Where& at) {
  const bool keepdim = at.keepdim >= 0 && call.boolean(at.keepdim);
  Plan plan{.x = call.tensor(0), .keepdim = keepdim};
  TENSORD_ASSIGN_OR_RETURN(plan.dims, DimsOf(call, at.dims, at.list));
  if (at.dtype >= 0) plan.dtype = call.dtype(at.dtype);
  return plan;
}

absl::StatusOr<Plan> PlanOverAll(const Call& call, int dtype_at = -1) {
  Plan plan{.x = call.tensor(0), .keepdim = false};
  plan.dims.resize(plan.x.rank());
  std::iota(plan.dims.begin(), plan.dims.end(), 0);
  if (dtype_at >= 0) plan.dtype = call.dtype(dtype_at);
  return plan;
}

constexpr Where kWhole{};
constexpr Where kWholeDtype{.dtype = 1};
constexpr Where kDims{.dims = 1, .keepdim = 2};
constexpr Where kDimsDtype{.dims = 1, .keepdim = 2, .dtype = 3};
constexpr Where kDimOnly{.dims = 1, .list = false};
constexpr Where kDimsOnly{.dims = 1};
constexpr Where kDim{.dims = 1, .list = false, .keepdim = 2};
constexpr Where kDimDtype{.dims = 1, .list = false, .keepdim = 2, .dtype = 3};

absl::StatusOr<Plan> Read(const Call& call, const Where& at) {
  return at.dims < 0 ? PlanOverAll(call, at.dtype) : PlanOf(call, at);
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

template <ReduceKind kind, const Where& at>
Results Accumulate(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  const DType whole = IsFloating(p.x.dtype()) ? p.x.dtype() : kInt64;
  return std::vector<Tensor>{Reduced(b, kind, p, p.x, p.dtype.value_or(whole))};
}

template <const Where& at>
Results NanSum(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  const DType dtype = p.dtype.value_or(IsFloating(p.x.dtype()) ? p.x.dtype() : kInt64);
  if (!IsFloating(p.x.dtype())) {
    return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, p.x, dtype)};
  }
  const Tensor x = Elementwise(b, FloatType(p.x.dtype()), {p.x},
                               [](Elem v) { return Select(IsNan(v), 0.0, v); });
  return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, x, dtype)};
}

template <const Where& at>
Results Mean(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  const DType dtype = p.dtype.value_or(p.x.dtype()), compute = ComputeType(dtype);
  const Tensor sum = Reduced(b, ReduceKind::kSum, p, p.x, compute);
  const Tensor count = NumberOf(b, compute, CountOf(p.x.sizes(), p.dims));
  return std::vector<Tensor>{
      Elementwise(b, dtype, {sum, count}, [](Elem s, Elem n) { return s / n; })};
}

template <const Where& at>
Results CountNonzero(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  const Tensor x = Elementwise(b, kBool, {p.x}, [](Elem v) { return NotEqual(v, 0); });
  return std::vector<Tensor>{Reduced(b, ReduceKind::kSum, p, x, kInt64)};
}

// ---- Extremes and truth

// Truth values have extremes too.
Tensor Extreme(Builder& b, ReduceKind kind, const Plan& p, const Tensor& x) {
  if (x.dtype() == kBool) {
    kind = kind == ReduceKind::kMax ? ReduceKind::kAny : ReduceKind::kAll;
  }
  return Reduced(b, kind, p, x, x.dtype());
}

template <ReduceKind kind, const Where& at>
Results ExtremeOp(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  return std::vector<Tensor>{Extreme(b, kind, p, p.x)};
}

Tensor Position(Builder& b, ReduceKind kind, const Plan& p, const Tensor& x) {
  return Reduced(b, kind, p, x.dtype() == kBool ? b.Cast(x, kInt32) : x, kInt64);
}

// (self, dim, keepdim) -> values, indices
template <ReduceKind kind, ReduceKind position>
Results ExtremeWithIndex(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, kDim));
  const Tensor x = Shared(b, p.x);
  return std::vector<Tensor>{Extreme(b, kind, p, x), Position(b, position, p, x)};
}

// (self, dim?, keepdim): without dim the position in the flattened tensor.
template <ReduceKind kind>
Results ArgExtreme(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, kDim));
  return std::vector<Tensor>{Position(b, kind, p, p.x)};
}

Results AMinMax(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, kDim));
  const Tensor x = Shared(b, p.x);
  return std::vector<Tensor>{Extreme(b, ReduceKind::kMin, p, x),
                             Extreme(b, ReduceKind::kMax, p, x)};
}

template <ReduceKind kind, const Where& at>
Results Truth(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  const Tensor x = p.x.dtype() == kBool
                       ? p.x
                       : Elementwise(b, kBool, {p.x}, [](Elem v) { return NotEqual(v, 0); });
  const Tensor result = Reduced(b, kind, p, x, kBool);
  // torch keeps uint8 for old code's sake.
  return std::vector<Tensor>{p.x.dtype() == v1::DTYPE_UINT8 ? b.Cast(result, p.x.dtype()) : result};
}

// ---- Moments

enum class Spread { kVar, kStd };

// `correction` is subtracted from the count. Results: the spread and, if wanted, the mean.
Results SpreadOf(Builder& b, const Plan& p, double correction, Spread spread, bool with_mean) {
  TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  const Tensor x = Shared(b, p.x);
  const Moments moments = MomentsOf(b, x, p.dims);
  const Tensor count = NumberOf(b, FloatType(x.dtype()), CountOf(x.sizes(), p.dims));
  const Tensor result = Elementwise(b, x.dtype(), {moments.squares, count}, [=](Elem m2, Elem n) {
    const Elem var = m2 / Maximum(n - correction, 0);
    return spread == Spread::kStd ? Sqrt(var) : var;
  });
  std::vector<Tensor> results{Finish(b, p, result)};
  if (with_mean) results.push_back(Finish(b, p, b.Cast(moments.mean, x.dtype())));
  return results;
}

// (self, unbiased)
template <Spread spread, bool with_mean>
Results SpreadAll(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOverAll(call));
  return SpreadOf(b, p, call.boolean(1) ? 1 : 0, spread, with_mean);
}

// (self, dim?, unbiased, keepdim)
template <Spread spread, bool with_mean>
Results SpreadDim(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call, {.dims = 1, .keepdim = 3}));
  return SpreadOf(b, p, call.boolean(2) ? 1 : 0, spread, with_mean);
}

// (self, dim?, correction?, keepdim)
template <Spread spread, bool with_mean>
Results SpreadCorrection(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, PlanOf(call, {.dims = 1, .keepdim = 3}));
  double correction = 1;
  if (call.has(2)) {
    TENSORD_ASSIGN_OR_RETURN(correction, ConstantNumber(call, 2));
  }
  return SpreadOf(b, p, correction, spread, with_mean);
}

// ---- Norms

Tensor NormOf(Builder& b, const Plan& p, double ord) {
  const DType dtype = p.dtype.value_or(p.x.dtype()), compute = ComputeType(dtype);
  const Tensor x = b.Cast(p.x, compute);
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

absl::StatusOr<double> OrdOf(const Call& call, int i) {
  if (!call.has(i)) return 2.0;
  return ConstantNumber(call, i);
}

// (self, p, ...): the dims, keepdim and dtype where `at` says.
template <const Where& at>
Results Norm(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, at));
  TENSORD_RETURN_IF_ERROR(NeedFloat(p));
  TENSORD_ASSIGN_OR_RETURN(const double ord, OrdOf(call, 1));
  return std::vector<Tensor>{NormOf(b, p, ord)};
}

constexpr Where kNormWhole{};
constexpr Where kNormWholeDtype{.dtype = 2};
constexpr Where kNormDims{.dims = 2, .keepdim = 3};
constexpr Where kNormDimsDtype{.dims = 2, .keepdim = 3, .dtype = 4};

// (Tensor[] self, ord, dtype?)
Results ForeachNorm(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const double ord, OrdOf(call, 1));
  std::vector<Tensor> results;
  for (const Tensor& x : call.tensors(0)) {
    Plan p{.x = x, .keepdim = false, .dtype = call.dtype(2)};
    TENSORD_RETURN_IF_ERROR(NeedFloat(p));
    p.dims.resize(x.rank());
    std::iota(p.dims.begin(), p.dims.end(), 0);
    results.push_back(NormOf(b, p, ord));
  }
  return results;
}

Results LogSumExp(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Plan p, Read(call, kDims));
  const DType dtype = IsFloating(p.x.dtype()) ? p.x.dtype() : kFloat32;
  const Tensor x = Shared(b, ToFloat(b, p.x));
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

constexpr Operator kOperators[] = {
    {"aten::sum", "T d?", Accumulate<ReduceKind::kSum, kWholeDtype>},
    {"aten::sum.dim_IntList", "T i[]? b d?", Accumulate<ReduceKind::kSum, kDimsDtype>},
    {"aten::prod", "T d?", Accumulate<ReduceKind::kProd, kWholeDtype>},
    {"aten::prod.dim_int", "T i b d?", Accumulate<ReduceKind::kProd, kDimDtype>},
    {"aten::nansum", "T i[]? b d?", NanSum<kDimsDtype>},
    {"aten::mean", "T d?", Mean<kWholeDtype>},
    {"aten::mean.dim", "T i[]? b d?", Mean<kDimsDtype>},
    {"aten::count_nonzero", "T i?", CountNonzero<kDimOnly>},
    {"aten::count_nonzero.dim_IntList", "T i[]", CountNonzero<kDimsOnly>},
    {"aten::amax", "T i[] b", ExtremeOp<ReduceKind::kMax, kDims>},
    {"aten::amin", "T i[] b", ExtremeOp<ReduceKind::kMin, kDims>},
    {"aten::max", "T", ExtremeOp<ReduceKind::kMax, kWhole>},
    {"aten::min", "T", ExtremeOp<ReduceKind::kMin, kWhole>},
    {"aten::max.dim", "T i b", ExtremeWithIndex<ReduceKind::kMax, ReduceKind::kArgMax>},
    {"aten::min.dim", "T i b", ExtremeWithIndex<ReduceKind::kMin, ReduceKind::kArgMin>},
    {"aten::aminmax", "T i? b", AMinMax},
    {"aten::argmax", "T i? b", ArgExtreme<ReduceKind::kArgMax>},
    {"aten::argmin", "T i? b", ArgExtreme<ReduceKind::kArgMin>},
    {"aten::any", "T", Truth<ReduceKind::kAny, kWhole>},
    {"aten::any.dim", "T i b", Truth<ReduceKind::kAny, kDim>},
    {"aten::any.dims", "T i[]? b", Truth<ReduceKind::kAny, kDims>},
    {"aten::all", "T", Truth<ReduceKind::kAll, kWhole>},
    {"aten::all.dim", "T i b", Truth<ReduceKind::kAll, kDim>},
    {"aten::all.dims", "T i[]? b", Truth<ReduceKind::kAll, kDims>},
    {"aten::var", "T b", SpreadAll<kVar, false>},
    {"aten::var.dim", "T i[]? b b", SpreadDim<kVar, false>},
    {"aten::var.correction", "T i[]? s? b", SpreadCorrection<kVar, false>},
    {"aten::var_mean", "T b", SpreadAll<kVar, true>},
    {"aten::var_mean.dim", "T i[]? b b", SpreadDim<kVar, true>},
    {"aten::var_mean.correction", "T i[]? s? b", SpreadCorrection<kVar, true>},
    {"aten::std", "T b", SpreadAll<kStd, false>},
    {"aten::std.dim", "T i[]? b b", SpreadDim<kStd, false>},
    {"aten::std.correction", "T i[]? s? b", SpreadCorrection<kStd, false>},
    {"aten::std_mean", "T b", SpreadAll<kStd, true>},
    {"aten::std_mean.dim", "T i[]? b b", SpreadDim<kStd, true>},
    {"aten::std_mean.correction", "T i[]? s? b", SpreadCorrection<kStd, true>},
    {"aten::norm.Scalar", "T s", Norm<kNormWhole>},
    {"aten::norm.ScalarOpt_dtype", "T s? d", Norm<kNormWholeDtype>},
    {"aten::norm.ScalarOpt_dim", "T s? i[] b", Norm<kNormDims>},
    {"aten::norm.ScalarOpt_dim_dtype", "T s? i[] b d", Norm<kNormDimsDtype>},
    {"aten::linalg_vector_norm", "T s i[]? b d?", Norm<kNormDimsDtype>},
    {"aten::_foreach_norm.Scalar", "T[] s d?", ForeachNorm},
    {"aten::logsumexp", "T i[] b", LogSumExp},
};

}  // namespace

std::span<const Operator> ReductionOperators() { return kOperators; }

}  // namespace tensord::compiler
