// SPDX-License-Identifier: Apache-2.0
// Layer, RMS and group normalization, forward and backward. Batch normalization: batch_norm.cc.
#include <limits>
#include <numeric>

#include "compiler/decompose/operators/norm_common.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Dimensions [0, axis) are rows, [axis, rank) are normalized.
struct Rows {
  std::vector<int> outer, inner;
  Sizes inner_sizes;
  Expr count;
};

absl::StatusOr<Rows> RowsOf(const Tensor& x, const Sizes& normalized_shape) {
  const int axis = x.rank() - static_cast<int>(normalized_shape.size());
  if (axis < 0 || normalized_shape.empty()) {
    return absl::InvalidArgumentError("normalized_shape must be the input's last dimensions");
  }
  Rows rows{.count = sym::Product(normalized_shape)};
  for (int d = 0; d < x.rank(); ++d) (d < axis ? rows.outer : rows.inner).push_back(d);
  rows.inner_sizes.assign(x.sizes().begin() + axis, x.sizes().end());
  for (size_t i = 0; i < normalized_shape.size(); ++i) {
    if (!sym::MayBeEqual(rows.inner_sizes[i], normalized_shape[i])) {
      return absl::InvalidArgumentError("normalized_shape must be the input's last dimensions");
    }
  }
  return rows;
}

absl::Status CheckAffine(const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                         const Sizes& sizes) {
  if (weight) TENSORD_RETURN_IF_ERROR(CheckSizes("weight", *weight, sizes));
  if (bias) TENSORD_RETURN_IF_ERROR(CheckSizes("bias", *bias, sizes));
  return absl::OkStatus();
}

// Sum over `dims`, or the tensor itself when there are none.
Tensor SumOver(Builder& b, const Tensor& t, const std::vector<int>& dims, DType dtype) {
  return dims.empty() ? b.Cast(t, dtype) : b.Reduce(ReduceKind::kSum, t, dims, false, dtype);
}

// ---- Layer norm

// (input, normalized_shape, weight?, bias?, eps) -> result, mean, rstd
Results NativeLayerNorm(Builder& b, const Call& call) {
  const Tensor input = call.tensor("input");
  const auto weight = call.optional_tensor("weight"), bias = call.optional_tensor("bias");
  TENSORD_ASSIGN_OR_RETURN(const Rows rows, RowsOf(input, call.integers("normalized_shape")));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, bias, rows.inner_sizes));
  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input));
  const Moments moments = MomentsOf(b, x, rows.inner);
  const Tensor rstd = RstdOf(b, moments, rows.count, call.real("eps"));
  std::vector<Tensor> results{Normalized(b, input.dtype(), x, moments.mean, rstd, weight, bias)};
  if (call.node().outputs.size() == 3) {
    results.push_back(b.Cast(moments.mean, call.result(1).dtype));
    results.push_back(b.Cast(rstd, call.result(2).dtype));
  }
  return results;
}

Results LayerNormBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_out"), input = call.tensor("input");
  const auto weight = call.optional_tensor("weight"), bias = call.optional_tensor("bias");
  const std::vector<int64_t> mask = call.constants("output_mask");
  TENSORD_ASSIGN_OR_RETURN(const Rows rows, RowsOf(input, call.integers("normalized_shape")));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, input.sizes()));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, bias, rows.inner_sizes));
  TENSORD_RETURN_IF_ERROR(CheckMask(mask, 3));
  const Tensor mean = call.tensor("mean"), rstd = call.tensor("rstd");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({input, mean, rstd}));

  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input)),
               g = RealizeIfExpensive(b, ToFloat(b, grad));
  const DType compute = x.dtype();
  const Tensor x_hat = Elementwise(b, compute, {x, ToFloat(b, mean), ToFloat(b, rstd)},
                                   [](Elem v, Elem m, Elem r) { return (v - m) * r; });
  std::vector<Tensor> results(3);
  if (mask[0]) {
    const Tensor gw = weight ? Times(b, compute, g, *weight) : g;
    const Tensor sum = SumKeep(b, gw, rows.inner);
    const Tensor dot = SumKeep(b, Times(b, compute, gw, x_hat), rows.inner);
    const Tensor scale = Elementwise(b, compute, {NumberOf(b, compute, rows.count)},
                                     [](Elem n) { return Reciprocal(n); });
    results[0] = Elementwise(b, input.dtype(), {gw, x_hat, sum, dot, ToFloat(b, rstd), scale},
                             [](Elem gv, Elem xv, Elem s, Elem d, Elem r, Elem n) {
                               return r * (gv - (s + xv * d) * n);
                             });
  }
  if (mask[1] && weight) {
    results[1] = SumOver(b, Times(b, compute, g, x_hat), rows.outer, weight->dtype());
  }
  if (mask[2] && bias) results[2] = SumOver(b, g, rows.outer, bias->dtype());
  return results;
}

// ---- RMS norm

// Results: the norm, and 1 / its divisor.
Results RmsNorm(Builder& b, const Call& call) {
  const Tensor input = call.tensor("input");
  const auto weight = call.optional_tensor("weight");
  TENSORD_ASSIGN_OR_RETURN(const Rows rows, RowsOf(input, call.integers("normalized_shape")));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, std::nullopt, rows.inner_sizes));
  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input));
  const DType compute = x.dtype();
  const double eps = call.real("eps", compute == kFloat64 ? std::numeric_limits<double>::epsilon()
                                                          : std::numeric_limits<float>::epsilon());
  const Tensor squares = SumKeep(b, Times(b, compute, x, x), rows.inner);
  const Tensor rstd = Elementwise(b, compute, {squares, NumberOf(b, compute, rows.count)},
                                  [eps](Elem s, Elem n) { return Rsqrt(s / n + eps); });
  std::vector<Tensor> results;
  if (weight) {
    results.push_back(Elementwise(b, input.dtype(), {x, rstd, *weight},
                                  [](Elem v, Elem r, Elem w) { return v * r * w; }));
  } else {
    results.push_back(Times(b, input.dtype(), x, rstd));
  }
  if (call.node().outputs.size() == 2) results.push_back(b.Cast(rstd, call.result(1).dtype));
  return results;
}

Results RmsNormBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_out"), input = call.tensor("input"),
               rstd = call.tensor("rstd");
  const auto weight = call.optional_tensor("weight");
  const std::vector<int64_t> mask = call.constants("output_mask");
  TENSORD_ASSIGN_OR_RETURN(const Rows rows, RowsOf(input, call.integers("normalized_shape")));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, input.sizes()));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, std::nullopt, rows.inner_sizes));
  TENSORD_RETURN_IF_ERROR(CheckMask(mask, 2));
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({input, rstd}));

  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input)),
               g = RealizeIfExpensive(b, ToFloat(b, grad));
  const DType compute = x.dtype();
  const Tensor r = ToFloat(b, rstd);
  const Tensor x_hat = Times(b, compute, x, r);
  std::vector<Tensor> results(2);
  if (mask[0]) {
    const Tensor gw = weight ? Times(b, compute, g, *weight) : g;
    const Tensor dot = SumKeep(b, Times(b, compute, gw, x_hat), rows.inner);
    results[0] = Elementwise(
        b, input.dtype(), {gw, x_hat, dot, r, NumberOf(b, compute, rows.count)},
        [](Elem gv, Elem xv, Elem d, Elem rv, Elem n) { return (gv - xv * (d / n)) * rv; });
  }
  if (mask[1] && weight) {
    results[1] = SumOver(b, Times(b, compute, g, x_hat), rows.outer, call.result(1).dtype);
  }
  return results;
}

// ---- Group norm: channels [N, C, ...] in `groups` groups of C / groups each

struct Groups {
  Expr n, c, groups, per_group, spatial;
  std::vector<int> spatial_dims;
};

absl::StatusOr<Groups> GroupsOf(const Tensor& x, const Expr& groups) {
  if (x.rank() < 2) return absl::InvalidArgumentError("group norm needs at least two dimensions");
  Groups g{.n = x.sizes()[0], .c = x.sizes()[1], .groups = groups, .spatial = Expr(1)};
  const Expr rest = groups.Is(0) ? Expr(1) : sym::Mod(g.c, groups);
  if (rest.IsConstant() && !rest.Is(0)) {
    return absl::InvalidArgumentError("the channels must divide evenly into the groups");
  }
  if (!rest.Is(0)) return absl::UnimplementedError("a group of channels that a call decides");
  g.per_group = sym::FloorDiv(g.c, groups);
  for (int d = 2; d < x.rank(); ++d) {
    g.spatial_dims.push_back(d);
    g.spatial *= x.sizes()[d];
  }
  return g;
}

// [N, groups] as [N, C, 1, ...].
Tensor GroupToChannels(Builder& b, const Groups& g, const Tensor& t, int rank) {
  Sizes sizes(rank, Expr(1));
  sizes[0] = g.n;
  sizes[1] = g.c;
  return b.Reindex(t, sizes, [per_group = g.per_group](Index index) {
    return std::vector<Expr>{index[0], sym::FloorDiv(index[1], per_group)};
  });
}

// [C] as [1, C, 1, ...], or nothing.
std::optional<Tensor> ChannelVector(Builder& b, const std::optional<Tensor>& t, int rank) {
  if (!t) return std::nullopt;
  return AlongDim(b, *t, 1, rank);
}

Results GroupNormOf(Builder& b, const Call& call, const Tensor& input, const Expr& groups,
                    const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                    double eps) {
  TENSORD_ASSIGN_OR_RETURN(const Groups g, GroupsOf(input, groups));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, bias, {g.c}));
  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input));
  // Splitting the channels never needs a copy, so a channels-last input is read in its own order.
  Sizes split{g.n, g.groups, g.per_group};
  split.insert(split.end(), input.sizes().begin() + 2, input.sizes().end());
  std::vector<int> dims(split.size() - 2);
  std::iota(dims.begin(), dims.end(), 2);
  const Moments kept = MomentsOf(b, b.Reshape(x, split), dims);
  const Moments moments{DropDims(b, kept.mean, dims), DropDims(b, kept.squares, dims)};
  const Tensor rstd = RstdOf(b, moments, g.per_group * g.spatial, eps);
  const int rank = input.rank();
  std::vector<Tensor> results{
      Normalized(b, input.dtype(), x, GroupToChannels(b, g, moments.mean, rank),
                 GroupToChannels(b, g, rstd, rank), ChannelVector(b, weight, rank),
                 ChannelVector(b, bias, rank))};
  if (call.node().outputs.size() == 3) {
    results.push_back(b.Cast(moments.mean, call.result(1).dtype));
    results.push_back(b.Cast(rstd, call.result(2).dtype));
  }
  return results;
}

Results NativeGroupNorm(Builder& b, const Call& call) {
  return GroupNormOf(b, call, call.tensor("input"), call.integer("group"),
                     call.optional_tensor("weight"), call.optional_tensor("bias"),
                     call.real("eps"));
}

Results GroupNorm(Builder& b, const Call& call) {
  return GroupNormOf(b, call, call.tensor("input"), call.integer("num_groups"),
                     call.optional_tensor("weight"), call.optional_tensor("bias"),
                     call.real("eps"));
}

Results GroupNormBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_out"), input = call.tensor("input");
  const auto weight = call.optional_tensor("weight");
  const std::vector<int64_t> mask = call.constants("output_mask");
  TENSORD_ASSIGN_OR_RETURN(const Groups g, GroupsOf(input, call.integer("group")));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, input.sizes()));
  TENSORD_RETURN_IF_ERROR(CheckAffine(weight, std::nullopt, {g.c}));
  TENSORD_RETURN_IF_ERROR(CheckMask(mask, 3));
  const Tensor mean = ToFloat(b, call.tensor("mean")), rstd = ToFloat(b, call.tensor("rstd"));
  TENSORD_RETURN_IF_ERROR(CheckSizes("mean", mean, {g.n, g.groups}));
  TENSORD_RETURN_IF_ERROR(CheckSizes("rstd", rstd, {g.n, g.groups}));

  const Tensor x = RealizeIfExpensive(b, ToFloat(b, input)),
               gr = RealizeIfExpensive(b, ToFloat(b, grad));
  const DType compute = x.dtype();
  const int rank = input.rank();
  // Per sample and channel, [N, C].
  const Tensor dot = SumOver(b, Times(b, compute, gr, x), g.spatial_dims, compute);
  const Tensor sum = SumOver(b, gr, g.spatial_dims, compute);
  const Sizes split{g.n, g.groups, g.per_group};
  std::vector<Tensor> results(3);
  if (mask[0]) {
    const auto group_sum = [&](const Tensor& t) {
      const Tensor weighted = weight ? Times(b, compute, t, *weight) : t;
      return b.Reduce(ReduceKind::kSum, b.Reshape(weighted, split), {2}, false, compute);
    };
    const Tensor group_dot = group_sum(dot), group_total = group_sum(sum);
    const Tensor count = NumberOf(b, compute, g.per_group * g.spatial);
    const Tensor slope = b.Realize(Elementwise(
        b, compute, {group_dot, group_total, mean, rstd, count},
        [](Elem d, Elem s, Elem m, Elem r, Elem n) { return (s * m - d) * r * r * r / n; }));
    const Tensor shift = b.Realize(
        Elementwise(b, compute, {slope, group_total, mean, rstd, count},
                    [](Elem k, Elem s, Elem m, Elem r, Elem n) { return -k * m - s * r / n; }));
    const Tensor scaled =
        weight ? Times(b, compute, GroupToChannels(b, g, rstd, rank), AlongDim(b, *weight, 1, rank))
               : GroupToChannels(b, g, rstd, rank);
    // As declared: of a narrow input with wide weights torch's own formula says wide.
    results[0] = Elementwise(
        b, call.result(0).dtype,
        {gr, x, scaled, GroupToChannels(b, g, slope, rank), GroupToChannels(b, g, shift, rank)},
        [](Elem gv, Elem v, Elem c1, Elem c2, Elem c3) { return gv * c1 + v * c2 + c3; });
  }
  const DType weight_type = weight ? weight->dtype() : input.dtype();
  if (mask[1]) {
    const Tensor summand = Elementwise(
        b, compute, {dot, sum, GroupToChannels(b, g, mean, 2), GroupToChannels(b, g, rstd, 2)},
        [](Elem d, Elem s, Elem m, Elem r) { return (d - s * m) * r; });
    results[1] = SumOver(b, summand, {0}, weight_type);
  }
  if (mask[2]) results[2] = SumOver(b, sum, {0}, weight_type);
  return results;
}

constexpr Lowering kNormLowerings[] = {
    {"aten::native_layer_norm", NativeLayerNorm},
    {"aten::layer_norm", NativeLayerNorm},
    {"aten::native_layer_norm_backward", LayerNormBackward},
    {"aten::rms_norm", RmsNorm},
    {"aten::_fused_rms_norm", RmsNorm},
    {"aten::_fused_rms_norm_backward", RmsNormBackward},
    {"aten::native_group_norm", NativeGroupNorm},
    {"aten::group_norm", GroupNorm},
    {"aten::native_group_norm_backward", GroupNormBackward},
    {"aten::_native_batch_norm_legit", BatchNormLegit},
    {"aten::_native_batch_norm_legit.no_stats", BatchNormNoStats},
    {"aten::_native_batch_norm_legit_functional", BatchNormFunctional},
    {"aten::_native_batch_norm_legit_no_training", BatchNormNoTraining},
    {"aten::native_batch_norm", BatchNormLegit},
    {"aten::_batch_norm_with_update_functional", BatchNormWithUpdateFunctional},
    {"aten::_batch_norm_no_update", BatchNormNoUpdate},
    {"aten::native_batch_norm_backward", BatchNormBackward},
    {"aten::batch_norm_backward", BatchNormBackward},
};

}  // namespace

std::span<const Lowering> NormLowerings() { return kNormLowerings; }

}  // namespace tensord::compiler
