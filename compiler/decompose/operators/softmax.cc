// SPDX-License-Identifier: Apache-2.0
// Softmax and its relatives over one dimension.
#include <limits>

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {
namespace {

struct SoftmaxOperand {
  Tensor x;  // in the compute type
  int dim;
};

absl::StatusOr<SoftmaxOperand> OperandOf(Builder& b, const Tensor& t, int64_t dim,
                                         std::optional<DType> dtype) {
  TENSORD_ASSIGN_OR_RETURN(const int normalized, NormalizeDim(dim, t.rank()));
  const Tensor x = dtype ? b.Cast(t, *dtype) : t;
  // Which eager refuses in its own words.
  if (!IsFloating(x.dtype())) return absl::UnimplementedError("softmax of integers");
  const Tensor operand = ToFloat(b, x);
  const bool again = IsComputedAgainInRows(b, operand, normalized);
  return SoftmaxOperand{again ? operand : RealizeIfExpensive(b, operand), normalized};
}

Tensor MaxKeep(Builder& b, const SoftmaxOperand& o) {
  return ReduceOver(b, ReduceKind::kMax, o.x, {o.dim}, /*keepdim=*/true, o.x.dtype());
}

Tensor SoftmaxOf(Builder& b, const SoftmaxOperand& o, DType result) {
  const Tensor max = MaxKeep(b, o);
  // Two loops read the exponentials: kept, which in a fused group means on chip.
  const Tensor e =
      b.Realize(Elementwise(b, o.x.dtype(), {o.x, max}, [](Elem x, Elem m) { return Exp(x - m); }));
  const Tensor sum = SumKeep(b, e, {o.dim});
  return Elementwise(b, result, {e, sum}, [](Elem v, Elem s) { return v * Reciprocal(s); });
}

// m = max(x) and sum(exp(x - m)): in float32 by one pass over x, for which infinity - infinity is
// 0, so that a row's first elements may be -inf. Of an infinite maximum the sum is NaN, as in
// eager.
std::pair<Tensor, Tensor> MaxAndSumOfExp(Builder& b, const SoftmaxOperand& o) {
  if (o.x.dtype() == kFloat32) {
    const auto [max, sum] =
        b.ReducePair(ReduceKind::kOnlineSoftmax, o.x, {o.dim}, /*keepdim=*/true);
    return {max, Elementwise(b, kFloat32, {sum, max}, [](Elem s, Elem m) { return s + (m - m); })};
  }
  const Tensor max = MaxKeep(b, o);
  const Tensor e =
      Elementwise(b, o.x.dtype(), {o.x, max}, [](Elem x, Elem m) { return Exp(x - m); });
  return {max, SumKeep(b, e, {o.dim})};
}

Tensor LogSoftmaxOf(Builder& b, const SoftmaxOperand& o, DType result) {
  const auto [max, sum] = MaxAndSumOfExp(b, o);
  return Elementwise(b, result, {o.x, max, sum},
                     [](Elem x, Elem m, Elem s) { return (x - m) - Log(s); });
}

// Results: max(x) and log(sum(exp(x - max(x)))), float32: what a log-softmax is made of where
// both of a training step's programs need it.
Results Statistics(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const SoftmaxOperand o,
                           OperandOf(b, call.tensor("self"), call.constant("dim"), kFloat32));
  const auto [max, sum] = MaxAndSumOfExp(b, o);
  return std::vector<Tensor>{max, Elementwise(b, kFloat32, {sum}, [](Elem s) { return Log(s); })};
}

using Form = Tensor (*)(Builder&, const SoftmaxOperand&, DType);

template <Form form>
Results Private(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const SoftmaxOperand o,
                           OperandOf(b, t, call.constant("dim"), std::nullopt));
  return std::vector<Tensor>{form(b, o, call.boolean("half_to_float") ? kFloat32 : t.dtype())};
}

template <Form form>
Results Public(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const SoftmaxOperand o,
                           OperandOf(b, t, call.constant("dim"), call.dtype("dtype")));
  const DType whole = IsFloating(t.dtype()) ? t.dtype() : kFloat32;
  return std::vector<Tensor>{form(b, o, call.dtype("dtype").value_or(whole))};
}

// Rows that are all -inf give zeros instead of NaN.
Tensor SafeSoftmaxOf(Builder& b, const SoftmaxOperand& o, DType result) {
  const Tensor max = MaxKeep(b, o);
  const double infinity = std::numeric_limits<double>::infinity();
  // exp(x - 0) is exactly 0 for a masked row, and its sum is replaced by 1.
  const Tensor e = b.Realize(Elementwise(b, o.x.dtype(), {o.x, max}, [=](Elem x, Elem m) {
    return Exp(x - Select(Equal(m, -infinity), 0.0, m));
  }));
  const Tensor sum = SumKeep(b, e, {o.dim});
  return Elementwise(b, result, {e, sum},
                     [](Elem v, Elem s) { return v * Reciprocal(Select(Equal(s, 0), 1.0, s)); });
}

template <typename F, typename G>
Results Backward(Builder& b, const Call& call, F summand, G result) {
  const Tensor grad = call.tensor("grad_output"), output = call.tensor("output");
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, output.sizes()));
  if (grad.dtype() != output.dtype()) return absl::UnimplementedError("a gradient of another type");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), output.rank()));
  const Tensor g = RealizeIfExpensive(b, ToFloat(b, grad)),
               y = RealizeIfExpensive(b, ToFloat(b, output));
  const DType compute = PromoteTypes(g.dtype(), y.dtype());
  const Tensor sum = SumKeep(b, Elementwise(b, compute, {g, y}, summand), {dim});
  const DType dtype = call.dtype("input_dtype").value_or(grad.dtype());
  return std::vector<Tensor>{Elementwise(b, dtype, {g, y, sum}, result)};
}

// By eager's formulas, which overflow for other numbers on a GPU than on the CPU.
Results SoftmaxBackward(Builder& b, const Call& call) {
  const auto summand = [](Elem g, Elem y) { return g * y; };
  if (b.device() == v1::DEVICE_TYPE_CPU) {
    return Backward(b, call, summand, [](Elem g, Elem y, Elem sum) { return (g - sum) * y; });
  }
  return Backward(b, call, summand, [](Elem g, Elem y, Elem sum) { return g * y - y * sum; });
}

Results LogSoftmaxBackward(Builder& b, const Call& call) {
  return Backward(
      b, call, [](Elem g, Elem) { return g; },
      [](Elem g, Elem y, Elem sum) { return g - Exp(y) * sum; });
}

constexpr Lowering kSoftmaxLowerings[] = {
    {"aten::_softmax", Private<SoftmaxOf>},
    {"aten::softmax.int", Public<SoftmaxOf>},
    {"aten::_safe_softmax", Public<SafeSoftmaxOf>},
    {"aten::_log_softmax", Private<LogSoftmaxOf>},
    {"aten::log_softmax.int", Public<LogSoftmaxOf>},
    {"tensord::softmax_statistics", Statistics},
    {"aten::_softmax_backward_data", SoftmaxBackward},
    {"aten::_log_softmax_backward_data", LogSoftmaxBackward},
};

}  // namespace

std::span<const Lowering> SoftmaxLowerings() { return kSoftmaxLowerings; }

}  // namespace tensord::compiler
