// SPDX-License-Identifier: Apache-2.0
// Pointwise operators of complex numbers, by their parts. Real operands beside complex ones have an
// imaginary part of zero. The formulas are in complex.h.
#include <absl/strings/str_cat.h>

#include <array>
#include <optional>

#include "compiler/decompose/operators/complex.h"
#include "compiler/decompose/operators/pointwise_operands.h"

namespace tensord::compiler {
namespace {

// What a formula costs, roughly, in vector instructions.
constexpr int kAddCost = 2, kMulCost = 6, kDivCost = 20, kFunctionCost = 60;

// An operand of the common sizes and of the result's part type.
struct Parts {
  Tensor re;
  std::optional<Tensor> im;  // nothing: zero
};

// The operands of a call, none left out, as they are and in parts.
struct PartsOfCall {
  DType part;
  Sizes sizes;
  std::vector<Tensor> tensors;
  std::vector<Parts> parts;

  const Parts& operator[](size_t i) const { return parts[i]; }
  size_t size() const { return parts.size(); }
};

absl::StatusOr<PartsOfCall> SplitOperands(Builder& b, Operands operands, DType dtype) {
  if (!IsComplex(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("complex numbers become ", DTypeName(dtype), ", no complex type"));
  }
  PartsOfCall split{.part = PartType(dtype)};
  for (const Operand& operand : operands) {
    if (IsNone(operand)) continue;
    const auto* t = std::get_if<Tensor>(&operand);
    split.tensors.push_back(t != nullptr ? *t
                                         : ScalarTensor(b, std::get<Scalar>(operand), split.part));
  }
  TENSORD_RETURN_IF_ERROR(CheckBroadcast(split.tensors));
  for (const Tensor& t : split.tensors) split.sizes = *BroadcastSizes(split.sizes, t.sizes());
  for (Tensor& t : split.tensors) {
    t = b.Expand(t, split.sizes);
    const bool is_complex = IsComplex(t.dtype());
    split.parts.push_back({.re = b.Cast(is_complex ? t.part(0) : t, split.part)});
    if (is_complex) split.parts.back().im = b.Cast(t.part(1), split.part);
  }
  return split;
}

using ComplexElems = std::span<const ComplexElem>;
using ComplexFormula = std::function<ComplexElem(ComplexElems)>;

// Both parts of a formula of all operands.
Tensor BothParts(Builder& b, const PartsOfCall& operands, int cost, const ComplexFormula& f) {
  std::vector<Tensor> inputs;
  std::vector<bool> is_complex;
  for (const Parts& parts : operands.parts) {
    inputs.push_back(parts.re);
    is_complex.push_back(parts.im.has_value());
    if (parts.im) inputs.push_back(*parts.im);
  }
  const auto part = [&](Elem ComplexElem::*which) {
    return ElementwiseOf(b, operands.part, inputs, [=](std::span<const Elem> v) {
      std::vector<ComplexElem> elems;
      size_t next = 0;
      for (const bool complex : is_complex) {
        const Elem re = v[next++];
        elems.push_back({re, complex ? v[next++] : re.Like(0)});
      }
      return f(elems).*which;
    });
  };
  return b.Complex(part(&ComplexElem::re), part(&ComplexElem::im), operands.tensors, cost);
}

template <ComplexElem (*f)(ComplexElem)>
Results Unary(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                           SplitOperands(b, OperandsOf(call), call.result().dtype));
  return AsResults(BothParts(b, z, kFunctionCost, [](ComplexElems v) { return f(v[0]); }));
}

// ---- Sums

Tensor Sum(Builder& b, DType part, const Tensor& x, const Tensor& y, Op op, double alpha) {
  return Elementwise(b, part, {x, y}, [op, alpha](Elem v, Elem w) {
    return Apply(op, v, alpha == 1 ? w : w * alpha);
  });
}

// x + alpha y, or x - alpha y.
Results Added(Builder& b, const Call& call, const Operand& x, const Operand& y, Op op) {
  const Scalar alpha = call.scalar("alpha");
  if (!alpha.IsKnown()) return absl::UnimplementedError("a symbolic factor of complex numbers");
  const double factor = alpha.AsDouble();
  const Operand operands[] = {x, y};
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z, SplitOperands(b, operands, call.result().dtype));
  const Tensor re = Sum(b, z.part, z[0].re, z[1].re, op, factor);
  Tensor im;
  if (z[0].im && z[1].im) {
    im = Sum(b, z.part, *z[0].im, *z[1].im, op, factor);
  } else if (z[0].im) {
    im = *z[0].im;
  } else {
    im = Elementwise(b, z.part, {*z[1].im}, [op, factor](Elem v) {
      return Apply(op, v.Like(0), factor == 1 ? v : v * factor);
    });
  }
  return AsResults(b.Complex(re, im, z.tensors, kAddCost));
}

Results Add(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  return Added(b, call, args[0], args[1], Op::k_add);
}
Results Sub(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  return Added(b, call, args[0], args[1], Op::k_sub);
}
Results Rsub(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  return Added(b, call, args[1], args[0], Op::k_sub);
}

// ---- Products

// Both parts with a real number: times or through it. As in eager, that has an imaginary part of
// zero, which makes NaN of infinities.
Tensor Scaled(Builder& b, const PartsOfCall& z, const Parts& x, const Tensor& factor, Op op) {
  const auto part = [&](const Tensor& t, const Tensor& other) {
    return Elementwise(b, z.part, {t, factor, other}, [op](Elem v, Elem w, Elem u) {
      return op == Op::k_mul ? v * w + u * 0 : (v + u * 0) / w;
    });
  };
  return b.Complex(part(x.re, *x.im), part(*x.im, x.re), z.tensors, kMulCost);
}

Results Mul(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                           SplitOperands(b, OperandsOf(call), call.result().dtype));
  if (!z[0].im) return AsResults(Scaled(b, z, z[1], z[0].re, Op::k_mul));
  if (!z[1].im) return AsResults(Scaled(b, z, z[0], z[1].re, Op::k_mul));
  return AsResults(BothParts(b, z, kMulCost, [](ComplexElems v) { return v[0] * v[1]; }));
}

Results Div(Builder& b, const Call& call) {
  if (call.takes("rounding_mode") && call.has("rounding_mode")) {
    return absl::UnimplementedError("complex quotients are not rounded");
  }
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                           SplitOperands(b, OperandsOf(call), call.result().dtype));
  if (!z[1].im) return AsResults(Scaled(b, z, z[0], z[1].re, Op::k_div));
  return AsResults(BothParts(b, z, kDivCost, [](ComplexElems v) { return v[0] / v[1]; }));
}

// self + value * tensor1 * tensor2, or with a quotient.
template <bool divides>
Results AddCompound(Builder& b, const Call& call) {
  const Scalar value = call.scalar("value");
  if (!value.IsKnown()) return absl::UnimplementedError("a symbolic factor of complex numbers");
  const std::vector<Operand> args = OperandsOf(call);
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                           SplitOperands(b, std::span(args).first(3), call.result().dtype));
  return AsResults(BothParts(b, z, kDivCost, [factor = value.AsDouble()](ComplexElems v) {
    const ComplexElem scaled = factor == 1 ? v[1] : v[1] * factor;
    return v[0] + (divides ? scaled / v[2] : scaled * v[2]);
  }));
}

Results Power(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  const auto* number = std::get_if<Scalar>(&args[1]);
  if (number != nullptr && number->IsKnown()) {
    const auto of_base = [&](ComplexElem (*f)(ComplexElem)) -> Results {
      TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                               SplitOperands(b, std::span(args).first(1), call.result().dtype));
      return AsResults(BothParts(b, z, kFunctionCost, [f](ComplexElems v) { return f(v[0]); }));
    };
    if (number->IsConstant(2)) return of_base(ComplexSquare);
    if (number->IsConstant(3)) return of_base([](ComplexElem z) { return z * z * z; });
    if (number->IsConstant(0.5)) return of_base(ComplexSqrt);
    if (number->IsConstant(-0.5)) return of_base(ComplexRsqrt);
    if (number->IsConstant(-1)) return of_base(ComplexReciprocal);
    if (number->IsConstant(-2)) {
      return of_base([](ComplexElem z) { return ComplexReciprocal(z * z); });
    }
  }
  return absl::UnimplementedError("a power of complex numbers is left to the library");
}

// ---- Parts

Results Conjugate(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  if (!IsComplex(t.dtype())) return AsResults(LazyCopy(b, t));
  const Tensor im = Elementwise(b, PartType(t.dtype()), {t.part(1)}, [](Elem v) { return -v; });
  return AsResults(b.Complex(t.part(0), im, {t}, 1));
}

Results Negative(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  return AsResults(Elementwise(b, t.dtype(), {t}, [](Elem v) { return -v; }));
}

template <Op op>
Results OfParts(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  const bool is_angle = op == Op::k_atan2;
  const Tensor &x = t.part(is_angle ? 1 : 0), &y = t.part(is_angle ? 0 : 1);
  return AsResults(
      Elementwise(b, call.result().dtype, {x, y}, [](Elem v, Elem w) { return Apply(op, v, w); }));
}

Results MakeComplex(Builder& b, const Call& call) {
  const Tensor re = call.tensor("real"), im = call.tensor("imag");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({re, im}));
  const Sizes sizes = *BroadcastSizes(re.sizes(), im.sizes());
  const DType part = PartType(call.result().dtype);
  return AsResults(
      b.Complex(b.Expand(b.Cast(re, part), sizes), b.Expand(b.Cast(im, part), sizes), {re, im}, 0));
}

Results Polar(Builder& b, const Call& call) {
  const Tensor length = call.tensor("abs"), angle = call.tensor("angle");
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({length, angle}));
  const auto part = [&](Op op) {
    return Elementwise(b, PartType(call.result().dtype), {length, angle},
                       [op](Elem v, Elem w) { return v * Apply(op, w); });
  };
  return AsResults(b.Complex(part(Op::k_cos), part(Op::k_sin), {length, angle}, kFunctionCost));
}

// ---- Truth values

// Whether both are equal, or (kNe) not.
template <Op op>
Results Compare(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
  for (const Operand& arg : args) {
    if (const auto* t = std::get_if<Tensor>(&arg)) tensors.push_back(*t);
    if (const auto* s = std::get_if<Scalar>(&arg)) scalars.push_back(*s);
  }
  TENSORD_ASSIGN_OR_RETURN(const PartsOfCall z,
                           SplitOperands(b, args, PromotedType(tensors, scalars)));
  const Tensor zero = b.Full(z.part, {}, 0);
  const Tensor inputs[] = {z[0].re, z[1].re, z[0].im.value_or(zero), z[1].im.value_or(zero)};
  return AsResults(
      ElementwiseOf(b, kBool, {std::begin(inputs), std::end(inputs)}, [](std::span<const Elem> v) {
        const Elem re = Apply(op, v[0], v[1]), im = Apply(op, v[2], v[3]);
        return op == Op::k_eq ? And(re, im) : Or(re, im);
      }));
}

template <Op op>
Results EitherPart(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  return AsResults(Elementwise(b, kBool, {t.part(0), t.part(1)},
                               [](Elem v, Elem w) { return Or(Apply(op, v), Apply(op, w)); }));
}

Results IsFinite(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  return AsResults(Elementwise(b, kBool, {t.part(0), t.part(1)}, [](Elem v, Elem w) {
    const auto is_not = [](Elem x) { return Or(IsNan(x), Apply(Op::k_isinf, x)); };
    return Not(Or(is_not(v), is_not(w)));
  }));
}

template <Op op>
Results Logic(Builder& b, const Call& call) {
  std::vector<Tensor> truths;
  for (const Tensor& t : call.tensor_operands()) truths.push_back(b.Cast(t, kBool));
  TENSORD_RETURN_IF_ERROR(CheckBroadcast(truths));
  return AsResults(b.Map(op, truths));
}

// ---- Choices

absl::StatusOr<Tensor> Chosen(Builder& b, const Tensor& condition, const Operand& x,
                              const Operand& y, DType dtype) {
  const auto typed = [&](const Operand& operand) {
    const auto* t = std::get_if<Tensor>(&operand);
    return b.Cast(t != nullptr ? *t : ScalarTensor(b, std::get<Scalar>(operand), PartType(dtype)),
                  dtype);
  };
  const Tensor v = typed(x), w = typed(y);
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({condition, v, w}));
  return b.Where(b.Cast(condition, kBool), v, w);
}

Results Where(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  TENSORD_ASSIGN_OR_RETURN(
      Tensor t, Chosen(b, std::get<Tensor>(args[0]), args[1], args[2], call.result().dtype));
  return AsResults(std::move(t));
}

Results MaskedFill(Builder& b, const Call& call) {
  const std::vector<Operand> args = OperandsOf(call);
  TENSORD_ASSIGN_OR_RETURN(
      Tensor t, Chosen(b, std::get<Tensor>(args[1]), args[2], args[0], call.result().dtype));
  return AsResults(std::move(t));
}

#define UNARY(name, f) {"aten::" name, Unary<f>}
#define BINARY(name, f) \
  {"aten::" name ".Tensor", f}, { "aten::" name ".Scalar", f }

constexpr Lowering kComplexPointwiseLowerings[] = {
    BINARY("add", Add),
    BINARY("sub", Sub),
    BINARY("rsub", Rsub),
    BINARY("mul", Mul),
    BINARY("div", Div),
    BINARY("true_divide", Div),
    {"aten::div.Tensor_mode", Div},
    {"aten::addcmul", AddCompound<false>},
    {"aten::addcdiv", AddCompound<true>},
    {"aten::pow.Tensor_Scalar", Power},
    {"aten::neg", Negative},
    UNARY("reciprocal", ComplexReciprocal),
    UNARY("square", ComplexSquare),
    UNARY("sgn", ComplexSgn),
    UNARY("sqrt", ComplexSqrt),
    UNARY("rsqrt", ComplexRsqrt),
    UNARY("exp", ComplexExp),
    UNARY("exp2", ComplexExp2),
    UNARY("expm1", ComplexExpm1),
    UNARY("log", ComplexLog),
    UNARY("log2", ComplexLog2),
    UNARY("log10", ComplexLog10),
    UNARY("log1p", ComplexLog1p),
    UNARY("sin", ComplexSin),
    UNARY("cos", ComplexCos),
    UNARY("tan", ComplexTan),
    UNARY("sinh", ComplexSinh),
    UNARY("cosh", ComplexCosh),
    UNARY("tanh", ComplexTanh),
    UNARY("sigmoid", ComplexSigmoid),
    // Parts
    {"aten::_conj_physical", Conjugate},
    {"aten::abs", OfParts<Op::k_hypot>},
    {"aten::angle", OfParts<Op::k_atan2>},
    {"aten::complex", MakeComplex},
    {"aten::polar", Polar},
    // Truth values
    BINARY("eq", Compare<Op::k_eq>),
    BINARY("ne", Compare<Op::k_ne>),
    {"aten::isnan", EitherPart<Op::k_isnan>},
    {"aten::isinf", EitherPart<Op::k_isinf>},
    {"aten::isfinite", IsFinite},
    {"aten::logical_not", Logic<Op::k_logical_not>},
    {"aten::logical_and", Logic<Op::k_logical_and>},
    {"aten::logical_or", Logic<Op::k_logical_or>},
    {"aten::logical_xor", Logic<Op::k_logical_xor>},
    // Choices
    {"aten::where.self", Where},
    {"aten::where.ScalarSelf", Where},
    {"aten::where.ScalarOther", Where},
    {"aten::masked_fill.Scalar", MaskedFill},
    {"aten::masked_fill.Tensor", MaskedFill},
};

}  // namespace

std::span<const Lowering> ComplexLowerings() { return kComplexPointwiseLowerings; }

}  // namespace tensord::compiler
