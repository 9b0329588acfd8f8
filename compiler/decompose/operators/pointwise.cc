// SPDX-License-Identifier: Apache-2.0
// The table of pointwise operators. The formulas are in pointwise_cores.cc, the ways to read
// operands in pointwise_operands.h; what is written out here moves or copies whole tensors.
#include "compiler/decompose/operators/pointwise_cores.h"

namespace tensord::compiler {
namespace {

// ---- Copies and conversions

Results Clone(Builder& b, const Call& call) {
  return std::vector<Tensor>{LazyCopy(b, call.tensor("self"))};
}

// To the type that is asked for, if any.
Results Convert(Builder& b, const Call& call) {
  const Tensor t = call.tensor_operands().front();
  const DType dtype = call.dtype("dtype").value_or(t.dtype());
  return std::vector<Tensor>{dtype == t.dtype() ? LazyCopy(b, t) : b.Cast(t, dtype)};
}

absl::StatusOr<Tensor> BroadcastTo(Builder& b, const Tensor& source, const Tensor& like) {
  const std::optional<Sizes> both = BroadcastSizes(source.sizes(), like.sizes());
  if (!both || both->size() != like.sizes().size() || source.rank() > like.rank()) {
    return absl::InvalidArgumentError("the source does not broadcast to the destination");
  }
  return b.Expand(source, like.sizes());
}

// A new tensor shaped and typed like the first, filled from the second.
Results Copy(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Tensor source,
                           BroadcastTo(b, call.tensor("src"), call.tensor("self")));
  const Tensor cast = b.Cast(source, call.tensor("self").dtype());
  return std::vector<Tensor>{cast.view() ? LazyCopy(b, cast) : cast};
}

Results CopyInto(Builder& b, const Call& call) {
  const Tensor destination = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const Tensor source, BroadcastTo(b, call.tensor("src"), destination));
  b.Assign(destination, source);
  return std::vector<Tensor>{destination};
}

// div with a rounding mode: none, "trunc" or "floor".
Results DivMode(Builder& b, const Call& call) {
  if (!call.has("rounding_mode")) return Single<DivCore>(b, call);
  if (call.text("rounding_mode") == "trunc") return Single<TruncDivCore>(b, call);
  if (call.text("rounding_mode") == "floor") return Single<FloorDivCore>(b, call);
  return absl::InvalidArgumentError("the rounding mode must be none, trunc or floor");
}

Results ForeachCopy(Builder& b, const Call& call) {
  TENSORD_RETURN_IF_ERROR(ForeachLength(call).status());
  const std::vector<Tensor> like = call.tensors("self"), sources = call.tensors("src");
  std::vector<Tensor> results;
  for (size_t i = 0; i < like.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(const Tensor source, BroadcastTo(b, sources[i], like[i]));
    const Tensor cast = b.Cast(source, like[i].dtype());
    results.push_back(cast.view() ? LazyCopy(b, cast) : cast);
  }
  return results;
}

// ---- Lines that many operators share

#define UNARY(name, core) {"aten::" name, Single<core>}
// An operator with a tensor and a number form; captured graphs have numbers in both.
#define BINARY(name, core) \
  {"aten::" name ".Tensor", Single<core>}, { "aten::" name ".Scalar", Single<core> }
#define BITWISE(name, core)                                   \
  {"aten::bitwise_" name ".Tensor", Single<core>},            \
      {"aten::bitwise_" name ".Scalar", Single<core>},        \
      {"aten::bitwise_" name ".Scalar_Tensor", Single<core>}, \
      {"aten::__" name "__.Tensor", Single<core>}, {          \
    "aten::__" name "__.Scalar", Single<core>                 \
  }
#define SHIFT(name, dunder, core)                                   \
  {"aten::bitwise_" name "_shift.Tensor", Single<core>},            \
      {"aten::bitwise_" name "_shift.Tensor_Scalar", Single<core>}, \
      {"aten::bitwise_" name "_shift.Scalar_Tensor", Single<core>}, \
      {"aten::__" dunder "__.Tensor", Single<core>}, {              \
    "aten::__" dunder "__.Scalar", Single<core>                     \
  }
#define FOREACH_UNARY(name, core) {"aten::_foreach_" name, Each<core>}
#define FOREACH_BINARY(name, core)                                                                \
  {"aten::_foreach_" name ".List", Each<core>}, {"aten::_foreach_" name ".Scalar", Each<core>}, { \
    "aten::_foreach_" name ".ScalarList", Each<core>                                              \
  }
#define FOREACH_COMPOUND(name, core)                 \
  {"aten::_foreach_" name ".Scalar", Each<core>}, {  \
    "aten::_foreach_" name ".ScalarList", Each<core> \
  }

constexpr Op kAnd = Op::k_bitwise_and, kOr = Op::k_bitwise_or, kXor = Op::k_bitwise_xor;

const Lowering kPointwiseLowerings[] = {
    // Unary, floating
    UNARY("sqrt", Float1<Op::k_sqrt>),
    UNARY("rsqrt", Float1<Op::k_rsqrt>),
    UNARY("reciprocal", Float1<Op::k_reciprocal>),
    UNARY("exp", Float1<Op::k_exp>),
    UNARY("exp2", Float1<Op::k_exp2>),
    UNARY("expm1", Float1<Op::k_expm1>),
    UNARY("log", Float1<Op::k_log>),
    UNARY("log2", Float1<Op::k_log2>),
    UNARY("log10", Float1<Op::k_log10>),
    UNARY("log1p", Float1<Op::k_log1p>),
    UNARY("sin", Float1<Op::k_sin>),
    UNARY("cos", Float1<Op::k_cos>),
    UNARY("tan", Float1<Op::k_tan>),
    UNARY("asin", Float1<Op::k_asin>),
    UNARY("acos", Float1<Op::k_acos>),
    UNARY("atan", Float1<Op::k_atan>),
    UNARY("sinh", Float1<Op::k_sinh>),
    UNARY("cosh", Float1<Op::k_cosh>),
    UNARY("tanh", Float1<Op::k_tanh>),
    UNARY("asinh", Float1<Op::k_asinh>),
    UNARY("acosh", Float1<Op::k_acosh>),
    UNARY("atanh", Float1<Op::k_atanh>),
    UNARY("erf", Float1<Op::k_erf>),
    UNARY("erfc", Float1<Op::k_erfc>),
    UNARY("erfinv", Float1<Op::k_erfinv>),
    UNARY("lgamma", Float1<Op::k_lgamma>),
    UNARY("digamma", Float1<Op::k_digamma>),
    // Unary, of the operand's type
    UNARY("neg", Same1<Op::k_neg>),
    UNARY("abs", Same1<Op::k_abs>),
    UNARY("sign", Same1<Op::k_sign>),
    UNARY("sgn", Same1<Op::k_sign>),
    UNARY("floor", Round1<Op::k_floor>),
    UNARY("ceil", Round1<Op::k_ceil>),
    UNARY("round", Round1<Op::k_round>),
    UNARY("trunc", Round1<Op::k_trunc>),
    UNARY("square", SquareCore),
    UNARY("frac", FracCore),
    {"aten::nan_to_num", Single<NanToNumCore>},

    // Binary
    {"aten::add.Tensor", Single<AddCore>},
    {"aten::add.Scalar", Single<AddCore>},
    {"aten::sub.Tensor", Single<SubCore>},
    {"aten::sub.Scalar", Single<SubCore>},
    {"aten::rsub.Tensor", Single<RsubCore>},
    {"aten::rsub.Scalar", Single<RsubCore>},
    BINARY("mul", MulCore),
    BINARY("div", DivCore),
    BINARY("true_divide", DivCore),
    {"aten::div.Tensor_mode", DivMode},
    {"aten::div.Scalar_mode", DivMode},
    {"aten::floor_divide", Single<FloorDivCore>},
    {"aten::floor_divide.Scalar", Single<FloorDivCore>},
    BINARY("fmod", FmodCore),
    BINARY("remainder", RemainderCore),
    {"aten::remainder.Scalar_Tensor", Single<RemainderCore>},
    {"aten::pow.Tensor_Tensor", Single<PowCore>},
    {"aten::pow.Tensor_Scalar", Single<PowCore>},
    {"aten::pow.Scalar", Single<PowCore>},
    {"aten::atan2", Single<Float2<Op::k_atan2>>},
    {"aten::hypot", Single<Same2<Op::k_hypot>>},
    BINARY("copysign", Float2<Op::k_copysign>),
    {"aten::minimum", Single<Same2<Op::k_minimum>>},
    {"aten::maximum", Single<Same2<Op::k_maximum>>},
    {"aten::fmin", Single<FminCore>},
    {"aten::fmax", Single<FmaxCore>},
    {"aten::xlogy.Tensor", Single<XlogyCore>},
    {"aten::xlogy.Scalar_Other", Single<XlogyCore>},
    {"aten::xlogy.Scalar_Self", Single<XlogyCore>},

    // Truth values and bits
    BINARY("eq", Compare<Op::k_eq>),
    BINARY("ne", Compare<Op::k_ne>),
    BINARY("lt", Compare<Op::k_lt>),
    BINARY("le", Compare<Op::k_le>),
    BINARY("gt", Compare<Op::k_gt>),
    BINARY("ge", Compare<Op::k_ge>),
    UNARY("logical_not", Logic<Op::k_logical_not>),
    {"aten::logical_and", Single<Logic<Op::k_logical_and>>},
    {"aten::logical_or", Single<Logic<Op::k_logical_or>>},
    {"aten::logical_xor", Single<Logic<Op::k_logical_xor>>},
    {"aten::bitwise_not", Single<Bits<Op::k_bitwise_not, Op::k_logical_not>>},
    BITWISE("and", (Bits<kAnd, Op::k_logical_and>)),
    BITWISE("or", (Bits<kOr, Op::k_logical_or>)),
    BITWISE("xor", (Bits<kXor, Op::k_logical_xor>)),
    SHIFT("left", "lshift", Same2<Op::k_shift_left>),
    SHIFT("right", "rshift", Same2<Op::k_shift_right>),
    UNARY("isnan", IsnanCore),
    UNARY("isinf", IsinfCore),
    UNARY("isfinite", IsfiniteCore),

    // Choices and compounds
    {"aten::where.self", Single<WhereCore>},
    {"aten::where.ScalarSelf", Single<WhereCore>},
    {"aten::where.ScalarOther", Single<WhereCore>},
    {"aten::where.Scalar", Single<WhereCore>},
    {"aten::masked_fill.Scalar", Single<MaskedFillCore>},
    {"aten::masked_fill.Tensor", Single<MaskedFillCore>},
    {"aten::clamp", Single<ClampCore>},
    {"aten::clamp.Tensor", Single<ClampCore>},
    {"aten::clamp_min", Single<Same2<Op::k_maximum>>},
    {"aten::clamp_min.Tensor", Single<Same2<Op::k_maximum>>},
    {"aten::clamp_max", Single<Same2<Op::k_minimum>>},
    {"aten::clamp_max.Tensor", Single<Same2<Op::k_minimum>>},
    {"aten::lerp.Scalar", Single<LerpCore>},
    {"aten::lerp.Tensor", Single<LerpCore>},
    {"prims::fma", Single<FmaCore>},
    {"aten::addcmul", Single<AddcmulCore>},
    {"aten::addcdiv", Single<AddcdivCore>},

    // Copies
    {"aten::clone", Clone},
    {"aten::lift_fresh_copy", Clone},
    {"aten::_to_copy", Convert},
    {"prims::convert_element_type", Convert},
    {"aten::copy", Copy},
    {"aten::copy_", CopyInto},

    // Lists
    FOREACH_UNARY("sqrt", Float1<Op::k_sqrt>),
    FOREACH_UNARY("rsqrt", Float1<Op::k_rsqrt>),
    FOREACH_UNARY("exp", Float1<Op::k_exp>),
    FOREACH_UNARY("reciprocal", Float1<Op::k_reciprocal>),
    FOREACH_UNARY("neg", Same1<Op::k_neg>),
    FOREACH_UNARY("abs", Same1<Op::k_abs>),
    FOREACH_UNARY("sign", Same1<Op::k_sign>),
    {"aten::_foreach_add.List", Each<AddCore>},
    {"aten::_foreach_add.Scalar", Each<AddCore>},
    {"aten::_foreach_add.ScalarList", Each<AddCore>},
    {"aten::_foreach_add.Tensor", Each<AddCore>},
    {"aten::_foreach_sub.List", Each<SubCore>},
    {"aten::_foreach_sub.Scalar", Each<SubCore>},
    {"aten::_foreach_sub.ScalarList", Each<SubCore>},
    FOREACH_BINARY("mul", MulCore),
    {"aten::_foreach_mul.Tensor", Each<MulCore>},
    FOREACH_BINARY("div", DivCore),
    {"aten::_foreach_div.Tensor", Each<DivCore>},
    FOREACH_BINARY("maximum", Same2<Op::k_maximum>),
    FOREACH_BINARY("minimum", Same2<Op::k_minimum>),
    FOREACH_BINARY("clamp_min", Same2<Op::k_maximum>),
    FOREACH_BINARY("clamp_max", Same2<Op::k_minimum>),
    FOREACH_BINARY("pow", PowCore),
    {"aten::_foreach_pow.ScalarAndTensor", Each<PowCore>},
    {"aten::_foreach_lerp.List", Each<LerpCore>},
    {"aten::_foreach_lerp.Scalar", Each<LerpCore>},
    {"aten::_foreach_lerp.ScalarList", Each<LerpCore>},
    FOREACH_COMPOUND("addcmul", AddcmulCore),
    FOREACH_COMPOUND("addcdiv", AddcdivCore),
    {"aten::_foreach_copy", ForeachCopy},
};

}  // namespace

std::span<const Lowering> PointwiseLowerings() { return kPointwiseLowerings; }

}  // namespace tensord::compiler
