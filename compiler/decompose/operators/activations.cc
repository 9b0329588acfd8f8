// SPDX-License-Identifier: Apache-2.0
// Activations and their backward forms: formulas over single elements.
#include <cmath>
#include <numbers>

#include "compiler/decompose/expressions.h"
#include "compiler/ops/gelu.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

constexpr double kSqrt1_2 = std::numbers::sqrt2 / 2;
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;
// From "Self-Normalizing Neural Networks" (Klambauer et al. 2017).
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

// ---- One tensor

template <typename F>
Results One(Builder& b, const Call& call, F f) {
  const Tensor x = call.tensor("self");
  return std::vector<Tensor>{Elementwise(b, x.dtype(), {x}, f)};
}

// Where eager has no kernel of integers, the library's refusal is the answer.
template <typename F>
Results OneOfFloats(Builder& b, const Call& call, F f) {
  if (!IsFloating(call.tensor("self").dtype())) return absl::UnimplementedError("of integers");
  return One(b, call, f);
}

// Results that are floating also for integer operands.
template <typename F>
Results OneFloat(Builder& b, const Call& call, F f) {
  const Tensor x = call.tensor("self");
  const DType dtype = IsFloating(x.dtype()) ? x.dtype() : kFloat32;
  return std::vector<Tensor>{
      Elementwise(b, dtype, {x}, [f, to = FloatType(x.dtype())](Elem v) { return f(v.To(to)); })};
}

// Eager's, which has it in float32 for float64 as well.
constexpr double kSixth = 1.0F / 6;

// As eager has it: a quotient on a CPU, a product on a GPU.
Elem SixthOf(const Builder& b, Elem x) {
  return b.device() == v1::DEVICE_TYPE_CPU ? x / 6 : x * kSixth;
}
Elem UpToSix(Elem x) { return Clamp(x + 3, 0, 6); }
Elem EluOf(Elem x, double alpha, double scale, double input_scale) {
  return Select(x > 0, x * scale, Expm1(x * input_scale) * (alpha * scale));
}

absl::Status CheckGelu(const std::string& approximate) {
  if (approximate == "none" || approximate == "tanh") return absl::OkStatus();
  return absl::InvalidArgumentError("approximate must be 'none' or 'tanh', not '" + approximate +
                                    "'");
}

Results Gelu(Builder& b, const Call& call) {
  TENSORD_RETURN_IF_ERROR(CheckGelu(call.text("approximate")));
  if (call.text("approximate") == "tanh") {
    return One(b, call, [](Elem x) {
      return 0.5 * x * (1 + Tanh(kGeluBeta * (x + kGeluKappa * (x * x * x))));
    });
  }
  return One(b, call, [](Elem x) { return x * NormalCdf(x); });
}

Results Silu(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return x * Sigmoid(x); });
}
Results SigmoidOp(Builder& b, const Call& call) {
  return OneFloat(b, call, [](Elem x) { return Sigmoid(x); });
}
Results ReluOp(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return Relu(x); });
}
Results Relu6(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return Clamp(x, 0, 6); });
}
Results HardSwish(Builder& b, const Call& call) {
  return OneOfFloats(b, call, [&b](Elem x) { return SixthOf(b, x * UpToSix(x)); });
}
Results HardSigmoid(Builder& b, const Call& call) {
  return OneOfFloats(b, call, [&b](Elem x) { return SixthOf(b, UpToSix(x)); });
}
Results Mish(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return x * Tanh(SoftplusOf(x)); });
}
Results Selu(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return EluOf(x, kSeluAlpha, kSeluScale, 1); });
}
Results LogSigmoid(Builder& b, const Call& call) {
  return One(b, call, [](Elem x) { return LogSigmoidOf(x); });
}

Results LogSigmoidForward(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  const Tensor result = Elementwise(b, x.dtype(), {x}, [](Elem v) { return LogSigmoidOf(v); });
  // The second result carries exp(-|x|) to the backward on the CPU and is empty elsewhere.
  const Sizes& sizes = call.result(1).sizes;
  if (SameSizes(sizes, x.sizes())) {
    return std::vector<Tensor>{result,
                               Elementwise(b, x.dtype(), {x}, [](Elem v) { return Exp(-Abs(v)); })};
  }
  return std::vector<Tensor>{result, b.Full(x.dtype(), sizes, 0)};
}

// One tensor and one number.
template <typename F>
Results OneNumber(Builder& b, const Call& call, F f) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<double> numbers, ConstantNumbers(call));
  return One(b, call, [f, n = numbers[0]](Elem x) { return f(x, n); });
}

// One tensor and two numbers.
template <typename F>
Results OneTwoNumbers(Builder& b, const Call& call, F f) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<double> numbers, ConstantNumbers(call));
  return One(b, call, [f, n = numbers[0], m = numbers[1]](Elem x) { return f(x, n, m); });
}

Results LeakyRelu(Builder& b, const Call& call) {
  return OneNumber(b, call, [](Elem x, double slope) { return Select(x > 0, x, x * slope); });
}
Results Celu(Builder& b, const Call& call) {
  return OneNumber(b, call, [](Elem x, double alpha) { return EluOf(x, alpha, 1, 1 / alpha); });
}
Results SoftShrink(Builder& b, const Call& call) {
  // A NaN passes both comparisons as it is: x * 0 keeps it.
  return OneNumber(b, call, [](Elem x, double lambda) {
    return Select(x > lambda, x - lambda, Select(x < -lambda, x + lambda, x * 0.0));
  });
}
Results HardShrink(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const double lambda, ConstantNumber(call, "lambd"));
  return OneOfFloats(b, call,
                     [lambda](Elem x) { return Select(And(x >= -lambda, x <= lambda), 0.0, x); });
}
Results HardTanh(Builder& b, const Call& call) {
  return OneTwoNumbers(b, call,
                       [](Elem x, double low, double high) { return Clamp(x, low, high); });
}
Results Threshold(Builder& b, const Call& call) {
  if (call.tensor("self").dtype() == kBool) return absl::UnimplementedError("of booleans");
  return OneTwoNumbers(b, call, [](Elem x, double threshold, double value) {
    return Select(x <= threshold, value, x);
  });
}
Results Softplus(Builder& b, const Call& call) {
  return OneTwoNumbers(b, call, [](Elem x, double beta, double threshold) {
    const Elem scaled = x * beta;
    return Select(scaled > threshold, x, Log1p(Exp(scaled)) / beta);
  });
}

Results Elu(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const double alpha, ConstantNumber(call, "alpha"));
  TENSORD_ASSIGN_OR_RETURN(const double scale, ConstantNumber(call, "scale"));
  TENSORD_ASSIGN_OR_RETURN(const double input_scale, ConstantNumber(call, "input_scale"));
  return One(b, call, [=](Elem x) { return EluOf(x, alpha, scale, input_scale); });
}

Results Logit(Builder& b, const Call& call) {
  const bool clamps = call.has("eps");
  const double eps = call.real("eps");
  return OneFloat(b, call, [=](Elem x) {
    const Elem p = clamps ? Clamp(x, eps, 1 - eps) : x;
    return Log(p / (1 - p));
  });
}

// ---- Two tensors of one result type

template <typename F>
Results Two(Builder& b, const Tensor& x, const Tensor& y, F f) {
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({x, y}));
  return std::vector<Tensor>{Elementwise(b, PromotedType({x, y}), {x, y}, f)};
}

// The operator's first two tensors.
template <typename F>
Results Two(Builder& b, const Call& call, F f) {
  const std::vector<Tensor> operands = call.tensor_operands();
  return Two(b, operands[0], operands[1], f);
}

// Gradient, input and one number.
template <typename F>
Results TwoNumber(Builder& b, const Call& call, F f) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<double> numbers, ConstantNumbers(call));
  return Two(b, call, [f, n = numbers[0]](Elem g, Elem x) { return f(g, x, n); });
}

template <typename F>
Results TwoTwoNumbers(Builder& b, const Call& call, F f) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<double> numbers, ConstantNumbers(call));
  return Two(b, call,
             [f, n = numbers[0], m = numbers[1]](Elem g, Elem x) { return f(g, x, n, m); });
}

Results PRelu(Builder& b, const Call& call) {
  return Two(b, call, [](Elem x, Elem w) { return Select(x > 0, x, w * x); });
}

Results PReluBackward(Builder& b, const Call& call) {
  const Tensor g = call.tensor("grad_output"), x = call.tensor("self"), w = call.tensor("weight");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({g, x, w}));
  const DType dtype = PromotedType({g, x, w});
  return std::vector<Tensor>{
      Elementwise(b, dtype, {g, x, w},
                  [](Elem gv, Elem v, Elem wv) { return Select(v > 0, gv, wv * gv); }),
      Elementwise(b, dtype, {g, x, w},
                  [](Elem gv, Elem v, Elem) { return Select(v > 0, 0.0, v * gv); })};
}

Results GeluBackward(Builder& b, const Call& call) {
  TENSORD_RETURN_IF_ERROR(CheckGelu(call.text("approximate")));
  if (call.text("approximate") == "tanh") {
    return Two(b, call, [](Elem g, Elem x) {
      const Elem square = x * x;
      const Elem t = Tanh(kGeluBeta * (x + kGeluKappa * (square * x)));
      const Elem inner_slope = kGeluBeta * (1 + 3 * kGeluKappa * square);
      return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope);
    });
  }
  return Two(b, call, [](Elem g, Elem x) { return g * (NormalCdf(x) + x * NormalPdf(x)); });
}

Results ThresholdBackward(Builder& b, const Call& call) {
  return TwoNumber(b, call, [](Elem g, Elem x, double t) { return Select(x <= t, 0.0, g); });
}
Results SiluBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem x) {
    const Elem s = Sigmoid(x);
    return g * s * (1 + x * (1 - s));
  });
}
Results TanhBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem y) { return g * (1 - y * y); });
}
Results SigmoidBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem y) { return g * (y * (1 - y)); });
}
Results LeakyReluBackward(Builder& b, const Call& call) {
  return TwoNumber(b, call,
                   [](Elem g, Elem x, double slope) { return Select(x > 0, g, g * slope); });
}
Results HardTanhBackward(Builder& b, const Call& call) {
  return TwoTwoNumbers(b, call, [](Elem g, Elem x, double low, double high) {
    return Select(Or(x <= low, x >= high), 0.0, g);
  });
}
Results HardSwishBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem x) {
    return Select(x <= -3.0, 0.0, Select(x < 3.0, g * (x / 3 + 0.5), g));
  });
}
Results HardSigmoidBackward(Builder& b, const Call& call) {
  return Two(b, call,
             [](Elem g, Elem x) { return Select(And(x > -3.0, x < 3.0), g * kSixth, 0.0); });
}
Results SoftplusBackward(Builder& b, const Call& call) {
  // sigmoid, not z / (z + 1): exp(x * beta) may overflow below a high threshold.
  return TwoTwoNumbers(b, call, [](Elem g, Elem x, double beta, double threshold) {
    const Elem scaled = x * beta;
    return Select(scaled > threshold, g, g * Sigmoid(scaled));
  });
}
Results MishBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem x) {
    const Elem t = Tanh(SoftplusOf(x));
    return g * (t + x * Sigmoid(x) * (1 - t * t));
  });
}
Results ShrinkBackward(Builder& b, const Call& call) {
  return TwoNumber(b, call, [](Elem g, Elem x, double lambda) {
    return Select(And(x >= -lambda, x <= lambda), 0.0, g);
  });
}

Results LogSigmoidBackward(Builder& b, const Call& call) {
  return Two(b, call, [](Elem g, Elem x) { return g * Sigmoid(-x); });
}

Results EluBackward(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const double alpha, ConstantNumber(call, "alpha"));
  TENSORD_ASSIGN_OR_RETURN(const double scale, ConstantNumber(call, "scale"));
  TENSORD_ASSIGN_OR_RETURN(const double input_scale, ConstantNumber(call, "input_scale"));
  const bool is_result = call.boolean("is_result");
  const double negative = alpha * scale;
  return Two(b, call.tensor("grad_output"), call.tensor("self_or_result"), [=](Elem g, Elem x) {
    const Elem slope = is_result ? x + negative : negative * Exp(x * input_scale);
    return Select(x <= 0, g * input_scale * slope, g * scale);
  });
}

// ---- Gated and dropout

// The two halves of a tensor along a dimension.
absl::StatusOr<std::pair<Tensor, Tensor>> Halves(Builder& b, const Tensor& x, int dim) {
  if (!sym::MayBeEqual(sym::Mod(x.sizes()[dim], 2), 0)) {
    return absl::InvalidArgumentError("the halved dimension must be even");
  }
  const Expr half = sym::FloorDiv(x.sizes()[dim], 2);
  return std::pair(b.Slice(x, dim, 0, half, 1), b.Slice(x, dim, half, half, 1));
}

Results Glu(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (x.rank() == 0) return absl::InvalidArgumentError("glu needs at least one dimension");
  TENSORD_ASSIGN_OR_RETURN(const auto halves, Halves(b, x, dim));
  return Two(b, halves.first, halves.second, [](Elem v, Elem gate) { return v * Sigmoid(gate); });
}

Results GluBackward(Builder& b, const Call& call) {
  const Tensor g = call.tensor("grad_output"), x = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (x.rank() == 0) return absl::InvalidArgumentError("glu needs at least one dimension");
  TENSORD_ASSIGN_OR_RETURN(const auto halves, Halves(b, x, dim));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", g, halves.first.sizes()));
  const Tensor value = Elementwise(b, x.dtype(), {g, halves.second},
                                   [](Elem gv, Elem gate) { return gv * Sigmoid(gate); });
  const Tensor gate =
      Elementwise(b, x.dtype(), {g, halves.first, halves.second}, [](Elem gv, Elem v, Elem t) {
        const Elem s = Sigmoid(t);
        return (1 - s) * s * v * gv;
      });
  return std::vector<Tensor>{b.Concat({value, gate}, dim, x.dtype())};
}

Results NativeDropout(Builder& b, const Call& call) {
  // Only without randomness; the client turns training dropout into tensord::philox_uniform.
  if (call.boolean("train", /*when_none=*/true) && call.real("p") != 0) {
    return absl::UnimplementedError("dropout with a generator");
  }
  const Tensor x = call.tensor("input");
  return std::vector<Tensor>{x, b.FullInt(kBool, x.sizes(), 1)};
}

Results Dropout(Builder& b, const Call& call) {
  if (call.boolean("train") && call.real("p") != 0) {
    return absl::UnimplementedError("dropout with a generator");
  }
  return std::vector<Tensor>{call.tensor("input")};
}

Results NativeDropoutBackward(Builder& b, const Call& call) {
  // Of integers it is floating point, as eager promotes the scale.
  const Tensor g = b.Cast(call.tensor("grad_output"), call.result().dtype);
  const Tensor mask = call.tensor("mask");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({g, mask}));
  const double scale = call.real("scale");
  return std::vector<Tensor>{Elementwise(b, g.dtype(), {g, mask}, [scale](Elem gv, Elem keep) {
    return gv * (keep.To(gv.dtype()) * scale);
  })};
}

constexpr Lowering kActivationsLowerings[] = {
    {"aten::gelu", Gelu},
    {"aten::silu", Silu},
    {"aten::sigmoid", SigmoidOp},
    {"aten::relu", ReluOp},
    {"aten::relu6", Relu6},
    {"aten::leaky_relu", LeakyRelu},
    {"aten::elu", Elu},
    {"aten::celu", Celu},
    {"aten::selu", Selu},
    {"aten::hardtanh", HardTanh},
    {"aten::hardswish", HardSwish},
    {"aten::hardsigmoid", HardSigmoid},
    {"aten::softplus", Softplus},
    {"aten::mish", Mish},
    {"aten::log_sigmoid", LogSigmoid},
    {"aten::log_sigmoid_forward", LogSigmoidForward},
    {"aten::softshrink", SoftShrink},
    {"aten::hardshrink", HardShrink},
    {"aten::threshold", Threshold},
    {"aten::_prelu_kernel", PRelu},
    {"aten::logit", Logit},
    {"aten::glu", Glu},
    {"aten::native_dropout", NativeDropout},
    {"aten::dropout", Dropout},
    {"aten::threshold_backward", ThresholdBackward},
    {"aten::gelu_backward", GeluBackward},
    {"aten::silu_backward", SiluBackward},
    {"aten::tanh_backward", TanhBackward},
    {"aten::sigmoid_backward", SigmoidBackward},
    {"aten::leaky_relu_backward", LeakyReluBackward},
    {"aten::elu_backward", EluBackward},
    {"aten::hardtanh_backward", HardTanhBackward},
    {"aten::hardswish_backward", HardSwishBackward},
    {"aten::hardsigmoid_backward", HardSigmoidBackward},
    {"aten::softplus_backward", SoftplusBackward},
    {"aten::mish_backward", MishBackward},
    {"aten::softshrink_backward", ShrinkBackward},
    {"aten::hardshrink_backward", ShrinkBackward},
    {"aten::log_sigmoid_backward", LogSigmoidBackward},
    {"aten::_prelu_kernel_backward", PReluBackward},
    {"aten::glu_backward", GluBackward},
    {"aten::native_dropout_backward", NativeDropoutBackward},
};

}  // namespace

std::span<const Lowering> ActivationLowerings() { return kActivationsLowerings; }

}  // namespace tensord::compiler
