// SPDX-License-Identifier: Apache-2.0
// Sums, products and extremes of all prefixes along a dimension.
#include <limits>

#include "compiler/decompose/expressions.h"
#include "compiler/graph/layout.h"

namespace tensord::compiler {
namespace {

// New buffers for all results of a call, of x's sizes, in the layout that is declared. What is
// declared may still be wrong.
std::vector<Tensor> AllocateResults(Builder& b, const Call& call, const Tensor& x,
                                    const std::vector<DType>& dtypes) {
  std::vector<Tensor> results;
  const std::vector<TensorType>& declared = call.node().outputs;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const bool fits = i < declared.size() && declared[i].sizes.size() == x.sizes().size();
    results.push_back(
        b.Allocate(dtypes[i], x.sizes(), fits ? BufferStrides(declared[i]) : Sizes{}));
  }
  return results;
}

// Elements of a row that a block of a GPU scans in the time that launching the library's two
// kernels takes.
constexpr int64_t kMostOfOneBlock = 1 << 16;

bool IsOnGpu(const Builder& b) { return b.device() == v1::DEVICE_TYPE_CUDA; }

// A kernel of ours has a block for each row, as the library's have, but for one row alone: that is
// shared by all blocks there.
absl::Status CheckRows(const Builder& b, const Tensor& x, int dim) {
  if (!IsOnGpu(b) || sym::Hint(x.sizes()[dim]) <= kMostOfOneBlock) return absl::OkStatus();
  Expr rows(1);
  for (int d = 0; d < x.rank(); ++d) rows *= d == dim ? Expr(1) : x.sizes()[d];
  return rows.Is(1) ? absl::UnimplementedError("one long row") : absl::OkStatus();
}

// How prefixes of numbers of a type are combined, as in eager: integers in int64. On the CPU
// float32 in float64, in which no sum of a few numbers overflows, whatever the order; narrower
// floats there too. Sums of float64 may, and so may products: those of nine float32 are beyond
// float64. On a GPU, where eager's order is a tree, in the type itself; narrower floats in float32.
struct Accumulation {
  DType dtype;
  bool in_order = false;

  static Accumulation Of(const Builder& b, Op op, DType dtype) {
    if (!IsFloating(dtype)) return {kInt64};
    if (IsOnGpu(b)) return {ComputeType(dtype)};
    return {kFloat64, op == Op::k_mul || dtype == kFloat64};
  }
};

template <Op op>
Results Accumulate(Builder& b, const Call& call) {
  const Tensor self = call.tensor("self");
  const DType dtype =
      call.dtype("dtype").value_or(IsFloating(self.dtype()) ? self.dtype() : kInt64);
  if (dtype == kBool || IsComplex(dtype)) return absl::UnimplementedError("no numbers to combine");
  const Tensor x = b.Cast(self, dtype);
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (x.rank() == 0) return std::vector<Tensor>{LazyCopy(b, x)};
  TENSORD_RETURN_IF_ERROR(CheckRows(b, x, dim));
  const std::vector<Tensor> results = AllocateResults(b, call, x, {dtype});
  const auto [type, in_order] = Accumulation::Of(b, op, dtype);
  b.Scan(x, dim, results, [=](Recorder& ops, Value element, const Expr&) {
    return std::vector<Value>{ops.Scan(op, ops.Cast(element, type), in_order)};
  });
  return results;
}

// Results: values, and where in the dimension they are. Of equals the last is meant; NaN is the
// extreme, the last of those before.
template <Op op>
Results Extreme(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  if (IsComplex(x.dtype())) return absl::UnimplementedError("complex numbers have no order");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (x.rank() == 0) return std::vector<Tensor>{LazyCopy(b, x), b.FullInt(kInt64, {}, 0)};
  const std::vector<Tensor> results = AllocateResults(b, call, x, {x.dtype(), kInt64});
  const DType type = IsFloating(x.dtype()) ? ComputeType(x.dtype()) : kInt64;
  const auto extent = x.sizes()[dim].AsConstant();
  const bool is_short = extent && *extent <= std::numeric_limits<int32_t>::max();
  const DType place_type = is_short ? kInt32 : kInt64;
  b.Scan(x, dim, results, [=](Recorder& ops, Value element, const Expr& position) {
    const Elem here{&ops, ops.Cast(element, type)}, extreme{&ops, ops.Scan(op, here.value)};
    const Elem is_extreme = Or(Equal(here, extreme), IsNan(here));
    // Positions grow, so that the last one is the greatest.
    const Elem place = Select(is_extreme, Elem{&ops, ops.Index(position, place_type)}, 0.0);
    return std::vector<Value>{extreme.value, ops.Scan(Op::k_maximum, place.value)};
  });
  return results;
}

Results LogCumulativeSumExp(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  if (!IsFloating(x.dtype())) return absl::UnimplementedError("no real floating point numbers");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (x.rank() == 0) return std::vector<Tensor>{LazyCopy(b, x)};
  TENSORD_RETURN_IF_ERROR(CheckRows(b, x, dim));
  const std::vector<Tensor> results = AllocateResults(b, call, x, {x.dtype()});
  // As eager: float32 on the CPU in float64, which has no functions of vectors, narrower ones in
  // float32.
  const bool in_type = IsOnGpu(b) || Is16BitFloat(x.dtype());
  const DType type = in_type ? ComputeType(x.dtype()) : kFloat64;
  b.Scan(x, dim, results, [=](Recorder& ops, Value element, const Expr&) {
    return std::vector<Value>{
        ops.Scan(Op::k_logaddexp, ops.Cast(element, type), /*in_order=*/type == kFloat64)};
  });
  return results;
}

constexpr Lowering kScanLowerings[] = {
    {"aten::cumsum", Accumulate<Op::k_add>},     {"aten::cumprod", Accumulate<Op::k_mul>},
    {"aten::cummax", Extreme<Op::k_maximum>},    {"aten::cummin", Extreme<Op::k_minimum>},
    {"aten::logcumsumexp", LogCumulativeSumExp},
};

}  // namespace

std::span<const Lowering> ScanLowerings() { return kScanLowerings; }

}  // namespace tensord::compiler
