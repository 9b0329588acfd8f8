// SPDX-License-Identifier: Apache-2.0
// Losses and their backward forms.
#include "compiler/decompose/expressions.h"

namespace tensord::compiler {
namespace {

// torch.nn._reduction's numbers.
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The element-wise loss (in the compute type) reduced as asked.
Tensor ReduceLoss(Builder& b, const Tensor& loss, int64_t reduction, DType dtype) {
  if (reduction == kNone) return b.Cast(loss, dtype);
  const Tensor sum = ReduceOver(b, ReduceKind::kSum, loss, {}, false, loss.dtype());
  if (reduction == kSum) return b.Cast(sum, dtype);
  const Tensor count = NumberOf(b, loss.dtype(), sym::Product(loss.sizes()));
  return Elementwise(b, dtype, {sum, count}, [](Elem s, Elem n) { return s / n; });
}

// What a mean multiplies the gradient with.
Tensor GradScale(Builder& b, DType dtype, const Tensor& x, int64_t reduction) {
  if (reduction != kMean) return b.Full(dtype, {}, 1);
  return Elementwise(b, dtype, {NumberOf(b, dtype, sym::Product(x.sizes()))},
                     [](Elem n) { return Reciprocal(n); });
}

// ---- Losses of two tensors

template <typename F>
Results PairLoss(Builder& b, const Call& call, F f) {
  const Tensor x = call.tensor("self"), y = call.tensor("target");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({x, y}));
  const DType dtype = PromotedType({x, y});
  if (!IsFloating(dtype)) return absl::InvalidArgumentError("a loss needs floating operands");
  const Tensor loss = Elementwise(b, FloatType(dtype), {x, y}, f);
  return std::vector<Tensor>{ReduceLoss(b, loss, call.constant("reduction"), dtype)};
}

// slope(x, y): of the loss of one element.
template <typename F>
Results PairLossBackward(Builder& b, const Call& call, F slope) {
  const Tensor g = call.tensor("grad_output"), x = call.tensor("self"), y = call.tensor("target");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({g, x, y}));
  const DType dtype = PromotedType({g, x, y});
  const Tensor scale = GradScale(b, FloatType(dtype), x, call.constant("reduction"));
  return std::vector<Tensor>{
      Elementwise(b, dtype, {g, x, y, scale},
                  [slope](Elem gv, Elem xv, Elem yv, Elem k) { return slope(xv, yv) * (gv * k); })};
}

Results MseLoss(Builder& b, const Call& call) {
  return PairLoss(b, call, [](Elem x, Elem y) {
    const Elem d = x - y;
    return d * d;
  });
}
Results MseLossBackward(Builder& b, const Call& call) {
  return PairLossBackward(b, call, [](Elem x, Elem y) { return 2.0 * (x - y); });
}
Results L1Loss(Builder& b, const Call& call) {
  return PairLoss(b, call, [](Elem x, Elem y) { return Abs(x - y); });
}

Results SmoothL1Loss(Builder& b, const Call& call) {
  const double beta = call.real("beta");
  return PairLoss(b, call, [beta](Elem x, Elem y) {
    const Elem d = Abs(x - y);
    return beta == 0 ? d : Select(d < beta, 0.5 * d * d / beta, d - 0.5 * beta);
  });
}
Results SmoothL1LossBackward(Builder& b, const Call& call) {
  const double beta = call.real("beta");
  return PairLossBackward(b, call, [beta](Elem x, Elem y) {
    const Elem d = x - y;
    return beta == 0 ? Sign(d) : Select(Abs(d) >= beta, Sign(d), d / beta);  // of NaN: NaN
  });
}

Results HuberLoss(Builder& b, const Call& call) {
  const double delta = call.real("delta");
  return PairLoss(b, call, [delta](Elem x, Elem y) {
    const Elem d = Abs(x - y);
    return Select(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta));
  });
}
Results HuberLossBackward(Builder& b, const Call& call) {
  const double delta = call.real("delta");
  return PairLossBackward(b, call, [delta](Elem x, Elem y) {
    const Elem d = x - y;
    return Clamp(d, -delta, delta);
  });
}

Results KlDiv(Builder& b, const Call& call) {
  const bool log_target = call.boolean("log_target");
  return PairLoss(b, call, [log_target](Elem x, Elem y) {
    if (log_target) return Exp(y) * (y - x);
    return Select(Equal(y, 0), 0.0, y * Log(y)) - y * x;
  });
}

// ---- Binary cross entropy

// A loss times an optional weight.
absl::StatusOr<Tensor> Weighted(Builder& b, const Tensor& loss,
                                const std::optional<Tensor>& weight) {
  if (!weight) return loss;
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({loss, *weight}));
  return Elementwise(b, loss.dtype(), {loss, *weight}, [](Elem l, Elem w) { return l * w; });
}

Results BinaryCrossEntropy(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self"), y = call.tensor("target");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({x, y}));
  // Checked is what eager has in memory: of narrow floats a rounded number. Logarithms are bounded
  // so that a wrong certain answer has a finite loss.
  const bool checks = b.checks_data();
  const DType predicted = x.dtype(), wanted = y.dtype();
  const Tensor loss = Elementwise(b, FloatType(predicted), {x, y}, [=](Elem p, Elem t) {
    if (checks) {
      p = p.Stored(predicted).Checked(DataCheck::kProbability);
      t = t.Stored(wanted).Checked(DataCheck::kTargetProbability);
    }
    return (t - 1) * Maximum(Log1p(-p), -100) - t * Maximum(Log(p), -100);
  });
  TENSORD_ASSIGN_OR_RETURN(const Tensor weighted,
                           Weighted(b, loss, call.optional_tensor("weight")));
  return std::vector<Tensor>{ReduceLoss(b, weighted, call.constant("reduction"), x.dtype())};
}

Results BinaryCrossEntropyBackward(Builder& b, const Call& call) {
  const Tensor g = call.tensor("grad_output"), x = call.tensor("self"), y = call.tensor("target");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({g, x, y}));
  const Tensor scale = GradScale(b, FloatType(x.dtype()), x, call.constant("reduction"));
  const Tensor slope =
      Elementwise(b, FloatType(x.dtype()), {g, x, y, scale}, [](Elem gv, Elem p, Elem t, Elem k) {
        return gv * (p - t) / Maximum(p * (1 - p), 1e-12) * k;
      });
  TENSORD_ASSIGN_OR_RETURN(const Tensor weighted,
                           Weighted(b, slope, call.optional_tensor("weight")));
  return std::vector<Tensor>{b.Cast(weighted, x.dtype())};
}

Results BinaryCrossEntropyWithLogits(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self"), y = call.tensor("target");
  const std::optional<Tensor> pos_weight = call.optional_tensor("pos_weight");
  TENSORD_RETURN_IF_ERROR(pos_weight ? CheckBroadcast({x, y, *pos_weight})
                                     : CheckBroadcast({x, y}));
  // Without a weight not by one of 1, which an infinite target makes NaN of.
  const DType compute = FloatType(x.dtype());
  const Tensor loss =
      pos_weight ? Elementwise(b, compute, {x, y, *pos_weight},
                               [](Elem v, Elem t, Elem w) {
                                 return (1 - t) * v - ((w - 1) * t + 1) * LogSigmoidOf(v);
                               })
                 : Elementwise(b, compute, {x, y},
                               [](Elem v, Elem t) { return (1 - t) * v - LogSigmoidOf(v); });
  TENSORD_ASSIGN_OR_RETURN(const Tensor weighted,
                           Weighted(b, loss, call.optional_tensor("weight")));
  return std::vector<Tensor>{
      ReduceLoss(b, weighted, call.constant("reduction"), PromotedType({x, y}))};
}

// ---- Negative log likelihood: classes are dimension 1 (0 without a batch)

struct Classes {
  Tensor scores, target;
  std::optional<Tensor> weight;
  int dim;
  Expr count;
  int64_t ignore_index;
  IndexRule rule;  // of targets
};

absl::StatusOr<Classes> ClassesOf(const Tensor& scores, const Call& call) {
  const Tensor target = call.tensor("target");
  const std::optional<Tensor> weight = call.optional_tensor("weight");
  if (scores.rank() == 0 || target.rank() != scores.rank() - 1) {
    return absl::UnimplementedError("targets must have one dimension less than the scores");
  }
  Classes c{.scores = scores,
            .target = target,
            .weight = weight,
            .dim = scores.rank() > 1 ? 1 : 0,
            .ignore_index = call.constant("ignore_index")};
  c.count = scores.sizes()[c.dim];
  Sizes expected = scores.sizes();
  expected.erase(expected.begin() + c.dim);
  TENSORD_RETURN_IF_ERROR(CheckSizes("the target", target, expected));
  if (weight) TENSORD_RETURN_IF_ERROR(CheckSizes("weight", *weight, {c.count}));
  return c;
}

// A value per target: `f` of its class, zero where the target is ignored.
Tensor PerTarget(Builder& b, const Classes& c, const std::vector<Tensor>& reads,
                 const std::function<Value(Recorder&, Index, const Expr&)>& f) {
  const DType dtype = FloatType(c.scores.dtype());
  return b.Pointwise(dtype, c.target.sizes(), reads, 6, [c, f, dtype](Recorder& ops, Index index) {
    const Value target = ops.Cast(c.target.Load(ops, index), kInt64);
    const Value valid = ops.Compute(Op::k_ne, {target, ops.ConstantInt(c.ignore_index, kInt64)});
    const Value safe = ops.Where(valid, target, ops.ConstantInt(0, kInt64));
    const Expr which = ops.Indirect(safe, c.count, c.rule);
    return ops.Where(valid, f(ops, index, which), ops.Constant(0, dtype));
  });
}

// Results: the loss, and the sum of the targets' weights. A target that is no class fails the run
// here; backward steps give it no gradient.
Results NllLossForward(Builder& b, const Call& call) {
  const Tensor scores = call.tensor("self");
  const int64_t reduction = call.constant("reduction");
  TENSORD_ASSIGN_OR_RETURN(Classes c, ClassesOf(scores, call));
  if (c.count.Is(0)) return absl::UnimplementedError("a loss of no class");
  c.rule = b.RuleFor(IndexRule::kClass);
  const DType compute = FloatType(scores.dtype());
  std::vector<Tensor> reads{c.target, scores};
  if (c.weight) reads.push_back(*c.weight);
  const auto weight_of = [c, compute](Recorder& ops, const Expr& which) {
    if (!c.weight) return ops.Constant(1, compute);
    return ops.Cast(c.weight->Load(ops, std::vector<Expr>{which}), compute);
  };
  const Tensor losses = PerTarget(b, c, reads, [=](Recorder& ops, Index index, const Expr& which) {
    std::vector<Expr> at(index.begin(), index.end());
    at.insert(at.begin() + c.dim, which);
    const Value loss = ops.Compute(Op::k_neg, {c.scores.Load(ops, at)});
    return c.weight ? ops.Mul(loss, weight_of(ops, which)) : loss;
  });
  if (reduction == kNone && scores.rank() > 1) {
    return std::vector<Tensor>{b.Cast(losses, scores.dtype()), b.Full(scores.dtype(), {}, 0)};
  }
  reads = {c.target};
  if (c.weight) reads.push_back(*c.weight);
  const Tensor weights = PerTarget(
      b, c, reads, [=](Recorder& ops, Index, const Expr& which) { return weight_of(ops, which); });
  const Tensor total = ReduceOver(b, ReduceKind::kSum, weights, {}, false, compute);
  Tensor output = losses;
  if (reduction != kNone) output = ReduceOver(b, ReduceKind::kSum, losses, {}, false, compute);
  if (reduction == kMean) {
    output = Elementwise(b, compute, {output, total}, [](Elem s, Elem w) { return s / w; });
  }
  return std::vector<Tensor>{b.Cast(output, scores.dtype()), b.Cast(total, scores.dtype())};
}

// What reaches one loss, before the weight of its class: one number for all, or one per target.
struct LossGradient {
  Tensor grad;
  bool single;
};

absl::StatusOr<LossGradient> GradientOf(Builder& b, const Call& call, const Classes& c) {
  const int64_t reduction = call.constant("reduction");
  Tensor grad = ToFloat(b, call.tensor("grad_output"));
  const bool single = !(reduction == kNone && c.scores.rank() > 1);
  if (single) {
    if (!sym::Product(grad.sizes()).Is(1)) {
      return absl::InvalidArgumentError("the gradient of a reduced loss must be one number");
    }
    grad = b.Reshape(grad, {});
  } else {
    TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, c.target.sizes()));
  }
  if (reduction == kMean) {
    const Tensor total = call.tensor("total_weight");
    if (!sym::Product(total.sizes()).Is(1)) {
      return absl::InvalidArgumentError("total_weight must be one number");
    }
    grad = Elementwise(b, FloatType(c.scores.dtype()), {grad, b.Reshape(total, {})},
                       [](Elem g, Elem w) { return g / w; });
  }
  return LossGradient{grad, single};
}

// The gradient of the scores whose log-softmax over the classes is `output`.
Results CrossEntropyBackward(Builder& b, const Call& call) {
  const Tensor output = call.tensor("output");
  TENSORD_ASSIGN_OR_RETURN(const Classes c, ClassesOf(output, call));
  TENSORD_ASSIGN_OR_RETURN(const LossGradient gradient, GradientOf(b, call, c));
  const DType compute = FloatType(output.dtype());
  std::vector<Tensor> reads{c.target, gradient.grad};
  if (c.weight) reads.push_back(*c.weight);
  const Tensor slope = PerTarget(b, c, reads, [=](Recorder& ops, Index index, const Expr& which) {
    Value s = gradient.single ? gradient.grad.Load(ops, {}) : gradient.grad.Load(ops, index);
    s = ops.Cast(s, compute);
    if (c.weight) {
      s = ops.Mul(s, ops.Cast(c.weight->Load(ops, std::vector<Expr>{which}), compute));
    }
    // A target that is no class has no element.
    const Value target = ops.Cast(c.target.Load(ops, index), kInt64);
    const Value beyond = ops.Compute(Op::k_ge, {target, ops.Index(c.count)});
    const Value below = ops.Compute(Op::k_lt, {target, ops.ConstantInt(0, kInt64)});
    const Value none = ops.Compute(Op::k_logical_or, {beyond, below});
    return ops.Where(none, ops.Constant(0, compute), s);
  });
  const DType dtype = call.dtype("input_dtype").value_or(output.dtype());
  Body body = [c, slope, output, compute](Recorder& ops, Index index) {
    std::vector<Expr> rest(index.begin(), index.end());
    rest.erase(rest.begin() + c.dim);
    const Value target = ops.Cast(c.target.Load(ops, rest), kInt64);
    const Value hit = ops.Compute(Op::k_eq, {target, ops.Index(index[c.dim])});
    const Value s = slope.Load(ops, rest);
    const Value y = ops.Cast(output.Load(ops, index), compute);
    const Value share = ops.Mul(ops.Compute(Op::k_exp, {y}), s);
    return ops.Sub(share, ops.Where(hit, s, ops.Constant(0, compute)));
  };
  const Tensor result =
      b.Pointwise(compute, output.sizes(), {c.target, slope, output}, 16, std::move(body));
  return std::vector<Tensor>{b.Cast(result, dtype)};
}

Results NllLossBackward(Builder& b, const Call& call) {
  const Tensor scores = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const Classes c, ClassesOf(scores, call));
  const DType compute = FloatType(scores.dtype());
  TENSORD_ASSIGN_OR_RETURN(const LossGradient gradient, GradientOf(b, call, c));
  const auto& [grad, single] = gradient;
  std::vector<Tensor> reads{c.target, grad};
  if (c.weight) reads.push_back(*c.weight);
  Body body = [c, grad, single, compute](Recorder& ops, Index index) {
    std::vector<Expr> rest(index.begin(), index.end());
    rest.erase(rest.begin() + c.dim);
    const Value target = ops.Cast(c.target.Load(ops, rest), kInt64);
    const Value hit =
        ops.Compute(Op::k_logical_and,
                    {ops.Compute(Op::k_eq, {target, ops.Index(index[c.dim])}),
                     ops.Compute(Op::k_ne, {target, ops.ConstantInt(c.ignore_index, kInt64)})});
    Value slope = single ? grad.Load(ops, {}) : grad.Load(ops, rest);
    if (c.weight) {
      const std::vector<Expr> which{index[c.dim]};
      slope = ops.Mul(slope, ops.Cast(c.weight->Load(ops, which), compute));
    }
    return ops.Where(hit, ops.Compute(Op::k_neg, {slope}), ops.Constant(0, compute));
  };
  return std::vector<Tensor>{
      b.Pointwise(scores.dtype(), scores.sizes(), reads, 6, std::move(body))};
}

constexpr Lowering kLossLowerings[] = {
    {"aten::mse_loss", MseLoss},
    {"aten::mse_loss_backward", MseLossBackward},
    {"aten::l1_loss", L1Loss},
    {"aten::smooth_l1_loss", SmoothL1Loss},
    {"aten::smooth_l1_loss_backward", SmoothL1LossBackward},
    {"aten::huber_loss", HuberLoss},
    {"aten::huber_loss_backward", HuberLossBackward},
    {"aten::kl_div", KlDiv},
    {"aten::binary_cross_entropy", BinaryCrossEntropy},
    {"aten::binary_cross_entropy_backward", BinaryCrossEntropyBackward},
    {"aten::binary_cross_entropy_with_logits", BinaryCrossEntropyWithLogits},
    {"aten::nll_loss_forward", NllLossForward},
    {"aten::nll_loss_backward", NllLossBackward},
    {"tensord::cross_entropy_backward", CrossEntropyBackward},
    {"aten::nll_loss2d_forward", NllLossForward},
    {"aten::nll_loss2d_backward", NllLossBackward},
};

}  // namespace

std::span<const Lowering> LossLowerings() { return kLossLowerings; }

}  // namespace tensord::compiler
