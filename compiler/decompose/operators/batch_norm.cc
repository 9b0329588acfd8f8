// SPDX-License-Identifier: Apache-2.0
// Batch normalization over every dimension but the channels (dimension 1).
#include <algorithm>
#include <set>

#include "compiler/decompose/body_reads.h"
#include "compiler/decompose/operators/norm_common.h"

namespace tensord::compiler {

Tensor RstdOf(Builder& b, const Moments& moments, const Expr& count, double eps) {
  const DType dtype = moments.squares.dtype();
  return Elementwise(b, dtype, {moments.squares, NumberOf(b, dtype, count)},
                     [eps](Elem m2, Elem n) { return Rsqrt(m2 / n + eps); });
}

Tensor Normalized(Builder& b, DType dtype, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                  const std::optional<Tensor>& weight, const std::optional<Tensor>& bias) {
  std::vector<Tensor> operands{x, mean, rstd};
  if (weight) operands.push_back(*weight);
  if (bias) operands.push_back(*bias);
  return ElementwiseOf(b, dtype, operands,
                       [w = weight.has_value(), s = bias.has_value()](std::span<const Elem> v) {
                         Elem y = (v[0] - v[1]) * v[2];
                         if (w) y = y * v[3];
                         return s ? y + v.back() : y;
                       });
}

Tensor Times(Builder& b, DType dtype, const Tensor& x, const Tensor& y) {
  return Elementwise(b, dtype, {x, y}, [](Elem v, Elem w) { return v * w; });
}

absl::Status CheckMask(const std::vector<int64_t>& mask, size_t n) {
  if (mask.size() == n) return absl::OkStatus();
  return absl::InvalidArgumentError("the output mask has a wrong length");
}

namespace {

struct Arguments {
  Tensor input;
  std::optional<Tensor> weight, bias, running_mean, running_var;
  bool training;
  double momentum, eps;
};

struct BatchNorm {
  Tensor result, save_mean, save_rstd;
  Tensor running_mean, running_var;  // updated; undefined without statistics
};

absl::StatusOr<std::vector<int>> ReducedDims(const Tensor& x) {
  if (x.rank() < 2) return absl::InvalidArgumentError("batch norm needs at least two dimensions");
  std::vector<int> dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

absl::Status CheckVectors(const Tensor& x, const std::vector<std::optional<Tensor>>& vectors) {
  for (const std::optional<Tensor>& v : vectors) {
    if (v) TENSORD_RETURN_IF_ERROR(CheckSizes("a channel vector", *v, {x.sizes()[1]}));
  }
  return absl::OkStatus();
}

// [C] in the compute type as [1, C, 1, ...].
Tensor Channels(Builder& b, const Tensor& t, int rank) {
  return AlongDim(b, ToFloat(b, t), 1, rank);
}

std::optional<Tensor> Channels(Builder& b, const std::optional<Tensor>& t, int rank) {
  if (!t) return std::nullopt;
  return Channels(b, *t, rank);
}

// What a channel's differences from its mean are multiplied by: rstd * weight. Backward computes a
// norm's result again in these steps (client/tensord/passes/joint/batch_norms.py).
Tensor ScaleOf(Builder& b, const Tensor& rstd, const std::optional<Tensor>& weight) {
  return weight ? Times(b, rstd.dtype(), rstd, Channels(b, *weight, rstd.rank())) : rstd;
}

// An exponential average: (1 - momentum) * old + momentum * now.
Tensor Update(Builder& b, const Tensor& old, const Tensor& now, double momentum) {
  return Elementwise(b, old.dtype(), {old, now},
                     [momentum](Elem o, Elem v) { return (1 - momentum) * o + momentum * v; });
}

// A value of its own, although it equals another.
Tensor Copy(Builder& b, const Tensor& t, DType dtype) {
  return Elementwise(b, dtype, {t}, [](Elem v) { return v; });
}

// A gradient that costs more to compute twice is written once.
constexpr int kMostGradientCost = 24;

// The gradient. Beside it both passes read `x`, and what is loaded for a channel costs nothing:
// where but one image is left, it is cheaper to read than to write and read the gradient.
Tensor SharedGradient(Builder& b, const Call& call, const Tensor& x) {
  const Tensor g = call.tensor("grad_out");
  if (!IsExpensive(g)) return ToFloat(b, g);
  std::set<BufferId> images = ReadsOf(g).buffers;
  for (const BufferId known : ReadsOf(x).buffers) images.erase(known);
  const int64_t size = sym::Hint(sym::Product(g.sizes()));
  const auto is_image = [&](BufferId id) {
    return 2 * sym::Hint(sym::Product(b.program().buffers[id].sizes)) > size;
  };
  const bool stays =
      g.cost() <= kMostGradientCost && std::count_if(images.begin(), images.end(), is_image) <= 1;
  return ToFloat(b, stays ? g : RealizeArgumentIfExpensive(b, call, "grad_out"));
}

absl::StatusOr<BatchNorm> Train(Builder& b, const Call& call, const Arguments& a,
                                const std::vector<int>& dims) {
  const Tensor x = ToFloat(b, RealizeArgumentIfExpensive(b, call, "input"));
  const int rank = x.rank();
  const Expr count = CountOf(x.sizes(), dims);
  const Moments moments = MomentsOf(b, x, dims);
  // One number for each channel, and not for each element anew.
  const Tensor rstd = b.Realize(RstdOf(b, moments, count, a.eps));
  BatchNorm out;
  out.result = Normalized(b, a.input.dtype(), x, moments.mean, ScaleOf(b, rstd, a.weight),
                          std::nullopt, Channels(b, a.bias, rank));
  const Tensor mean = DropDims(b, moments.mean, dims);
  out.save_mean = b.Cast(mean, call.result(1).dtype);
  out.save_rstd = b.Cast(DropDims(b, rstd, dims), call.result(2).dtype);
  if (a.running_mean) out.running_mean = Update(b, *a.running_mean, mean, a.momentum);
  if (a.running_var) {
    const Tensor unbiased = Elementwise(
        b, x.dtype(), {DropDims(b, moments.squares, dims), NumberOf(b, x.dtype(), count)},
        [](Elem m2, Elem n) { return m2 / (n - 1); });
    out.running_var = Update(b, *a.running_var, unbiased, a.momentum);
  }
  return out;
}

absl::StatusOr<BatchNorm> Infer(Builder& b, const Call& call, const Arguments& a) {
  if (!a.running_mean || !a.running_var) {
    return absl::InvalidArgumentError("batch norm without training needs running statistics");
  }
  const int rank = a.input.rank();
  const Tensor var = Channels(b, *a.running_var, rank);
  const double eps = a.eps;
  const Tensor rstd = Elementwise(b, var.dtype(), {var}, [eps](Elem v) { return Rsqrt(v + eps); });
  BatchNorm out;
  out.result = Normalized(b, a.input.dtype(), a.input, Channels(b, *a.running_mean, rank), rstd,
                          Channels(b, a.weight, rank), Channels(b, a.bias, rank));
  // Eager saves nothing on the CPU and the statistics elsewhere.
  const TensorType& saved = call.result(1);
  if (SameSizes(saved.sizes, a.running_mean->sizes())) {
    out.save_mean = Copy(b, *a.running_mean, saved.dtype);
    out.save_rstd =
        Elementwise(b, saved.dtype, {*a.running_var}, [eps](Elem v) { return Rsqrt(v + eps); });
  } else {
    out.save_mean = b.Full(saved.dtype, saved.sizes, 0);
    out.save_rstd = b.Full(saved.dtype, saved.sizes, 0);
  }
  out.running_mean = Copy(b, *a.running_mean, a.running_mean->dtype());
  out.running_var = Copy(b, *a.running_var, a.running_var->dtype());
  return out;
}

absl::StatusOr<BatchNorm> Lower(Builder& b, const Call& call, const Arguments& a) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int> dims, ReducedDims(a.input));
  TENSORD_RETURN_IF_ERROR(CheckVectors(a.input, {a.weight, a.bias, a.running_mean, a.running_var}));
  return a.training ? Train(b, call, a, dims) : Infer(b, call, a);
}

Arguments WithStatistics(const Call& call) {
  return {.input = call.tensor("input"),
          .weight = call.optional_tensor("weight"),
          .bias = call.optional_tensor("bias"),
          .running_mean = call.optional_tensor("running_mean"),
          .running_var = call.optional_tensor("running_var")};
}

// cuDNN's reserve space is for its own backward, which is never called here.
absl::StatusOr<Tensor> Reserve(Builder& b, const Call& call) {
  const TensorType& type = call.result(3);
  if (!sym::Product(type.sizes).Is(0)) {
    return absl::UnimplementedError("batch norm with a reserve space");
  }
  return b.FullInt(type.dtype, type.sizes, 0);
}

}  // namespace

Results BatchNormLegit(Builder& b, const Call& call) {
  Arguments a = WithStatistics(call);
  a.training = call.boolean("training");
  a.momentum = call.real("momentum");
  a.eps = call.real("eps");
  if (a.training && (a.running_mean || a.running_var)) {
    return absl::UnimplementedError("batch norm that updates its arguments");
  }
  TENSORD_ASSIGN_OR_RETURN(BatchNorm out, Lower(b, call, a));
  return std::vector<Tensor>{out.result, out.save_mean, out.save_rstd};
}

Results BatchNormNoStats(Builder& b, const Call& call) {
  const Arguments a{.input = call.tensor("input"),
                    .weight = call.optional_tensor("weight"),
                    .bias = call.optional_tensor("bias"),
                    .training = call.boolean("training"),
                    .momentum = call.real("momentum"),
                    .eps = call.real("eps")};
  TENSORD_ASSIGN_OR_RETURN(BatchNorm out, Lower(b, call, a));
  return std::vector<Tensor>{out.result, out.save_mean, out.save_rstd};
}

// As BatchNormLegit; the new statistics are results, wide where torch declares them so.
Results BatchNormFunctional(Builder& b, const Call& call) {
  Arguments a = WithStatistics(call);
  a.training = call.boolean("training");
  a.momentum = call.real("momentum");
  a.eps = call.real("eps");
  TENSORD_ASSIGN_OR_RETURN(BatchNorm out, Lower(b, call, a));
  return std::vector<Tensor>{out.result, out.save_mean, out.save_rstd,
                             b.Cast(out.running_mean, call.result(3).dtype),
                             b.Cast(out.running_var, call.result(4).dtype)};
}

Results BatchNormNoTraining(Builder& b, const Call& call) {
  Arguments a = WithStatistics(call);
  a.training = false;
  a.momentum = call.real("momentum");
  a.eps = call.real("eps");
  TENSORD_ASSIGN_OR_RETURN(BatchNorm out, Lower(b, call, a));
  return std::vector<Tensor>{out.result, out.save_mean, out.save_rstd};
}

Results BatchNormNoUpdate(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Tensor reserve, Reserve(b, call));
  TENSORD_ASSIGN_OR_RETURN(std::vector<Tensor> results, BatchNormNoTraining(b, call));
  results.push_back(reserve);
  return results;
}

Results BatchNormWithUpdateFunctional(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Tensor reserve, Reserve(b, call));
  Arguments a = WithStatistics(call);
  a.training = true;
  a.momentum = call.real("momentum");
  a.eps = call.real("eps");
  TENSORD_ASSIGN_OR_RETURN(BatchNorm out, Lower(b, call, a));
  return std::vector<Tensor>{out.result,
                             out.save_mean,
                             out.save_rstd,
                             reserve,
                             b.Cast(out.running_mean, call.result(4).dtype),
                             b.Cast(out.running_var, call.result(5).dtype)};
}

// Two operators, which differ in two names.
Results BatchNormBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_out"), input = RealizeArgumentIfExpensive(b, call, "input");
  const auto weight = call.optional_tensor("weight");
  const bool train = call.boolean(call.takes("train") ? "train" : "update");
  const double eps = call.real("eps");
  const std::vector<int64_t> mask = call.constants("output_mask");
  TENSORD_RETURN_IF_ERROR(CheckMask(mask, 3));
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int> dims, ReducedDims(input));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, input.sizes()));
  const auto saved_rstd = call.takes("save_invstd") ? "save_invstd" : "save_var";
  const auto mean_argument = call.optional_tensor(train ? "save_mean" : "running_mean");
  const auto spread_argument = call.optional_tensor(train ? saved_rstd : "running_var");
  if (!mean_argument || !spread_argument) {
    return absl::InvalidArgumentError("batch norm's backward needs its statistics");
  }
  TENSORD_RETURN_IF_ERROR(CheckVectors(input, {weight, mean_argument, spread_argument}));

  const int rank = input.rank();
  const Tensor x = ToFloat(b, input), g = SharedGradient(b, call, x);
  const DType compute = x.dtype();
  const Tensor mean = Channels(b, *mean_argument, rank);
  Tensor rstd = Channels(b, *spread_argument, rank);
  if (!train) rstd = Elementwise(b, compute, {rstd}, [eps](Elem v) { return Rsqrt(v + eps); });
  const Tensor scale = ScaleOf(b, rstd, weight);

  const bool needs_dot = (mask[0] && train) || mask[1], needs_sum = (mask[0] && train) || mask[2];
  Tensor dot, sum;
  if (needs_dot) {
    dot = SumKeep(
        b,
        Elementwise(b, compute, {g, x, mean}, [](Elem gv, Elem v, Elem m) { return gv * (v - m); }),
        dims);
  }
  if (needs_sum) sum = SumKeep(b, g, dims);

  std::vector<Tensor> results(3);
  if (mask[0] && train) {
    const Tensor count = NumberOf(b, compute, CountOf(x.sizes(), dims));
    results[0] = Elementwise(b, input.dtype(), {g, x, mean, rstd, scale, dot, sum, count},
                             [](Elem gv, Elem v, Elem m, Elem r, Elem k, Elem d, Elem s, Elem n) {
                               const Elem norm = Reciprocal(n);
                               return (gv - (v - m) * (d * norm * r * r) - s * norm) * k;
                             });
  } else if (mask[0]) {
    results[0] = Times(b, input.dtype(), g, scale);
  } else if (call.result(0).dtype != v1::DTYPE_UNSPECIFIED) {
    results[0] = b.Full(input.dtype(), input.sizes(), 0);  // declared all the same, never read
  }
  const DType weight_type = weight ? weight->dtype() : input.dtype();
  if (mask[1]) results[1] = DropDims(b, Times(b, weight_type, dot, rstd), dims);
  if (mask[2]) results[2] = b.Cast(DropDims(b, sum, dims), weight_type);
  return results;
}

}  // namespace tensord::compiler
