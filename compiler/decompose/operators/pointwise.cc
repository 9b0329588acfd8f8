// The table of pointwise operators. The formulas are in pointwise_cores.cc, the ways to read
// operands in operands.h; what is written out here moves or copies whole tensors.
#include "compiler/decompose/operators/pointwise_cores.h"

namespace tensord::compiler {
namespace {

// ---- Copies and conversions

Results Clone(Builder& b, const Call& call) {
  return std::vector<Tensor>{LazyCopy(b, call.tensor(0))};
}

// Argument 1 is the new type, or none.
Results Convert(Builder& b, const Call& call) {
  const Tensor& t = call.tensor(0);
  const DType dtype = call.dtype(1).value_or(t.dtype());
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
  TENSORD_ASSIGN_OR_RETURN(const Tensor source, BroadcastTo(b, call.tensor(1), call.tensor(0)));
  const Tensor cast = b.Cast(source, call.tensor(0).dtype());
  return std::vector<Tensor>{cast.view() ? LazyCopy(b, cast) : cast};
}

Results CopyInto(Builder& b, const Call& call) {
  const Tensor destination = call.tensor(0);
  TENSORD_ASSIGN_OR_RETURN(const Tensor source, BroadcastTo(b, call.tensor(1), destination));
  b.Assign(destination, source);
  return std::vector<Tensor>{destination};
}

// div with a rounding mode: none, "trunc" or "floor".
Results DivMode(Builder& b, const Call& call) {
  if (!call.has(2)) return Single<DivCore, 0, 1>(b, call);
  if (call.text(2) == "trunc") return Single<TruncDivCore, 0, 1>(b, call);
  if (call.text(2) == "floor") return Single<FloorDivCore, 0, 1>(b, call);
  return absl::InvalidArgumentError("the rounding mode must be none, trunc or floor");
}

Results ForeachCopy(Builder& b, const Call& call) {
  TENSORD_RETURN_IF_ERROR(ForeachLength(call).status());
  const std::vector<Tensor> like = call.tensors(0), sources = call.tensors(1);
  std::vector<Tensor> results;
  for (size_t i = 0; i < like.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(const Tensor source, BroadcastTo(b, sources[i], like[i]));
    const Tensor cast = b.Cast(source, like[i].dtype());
    results.push_back(cast.view() ? LazyCopy(b, cast) : cast);
  }
  return results;
}

// ---- Lines that many operators share

#define UNARY(name, core) {"aten::" name, "T", Single<core, 0>}
// An operator with a tensor and a number form; captured graphs have numbers in both.
#define BINARY(name, core)                                \
  {"aten::" name ".Tensor", "x x", Single<core, 0, 1>}, { \
    "aten::" name ".Scalar", "T s", Single<core, 0, 1>    \
  }
#define BITWISE(name, core)                                                \
  {"aten::bitwise_" name ".Tensor", "x x", Single<core, 0, 1>},            \
      {"aten::bitwise_" name ".Scalar", "T s", Single<core, 0, 1>},        \
      {"aten::bitwise_" name ".Scalar_Tensor", "s T", Single<core, 0, 1>}, \
      {"aten::__" name "__.Tensor", "x x", Single<core, 0, 1>}, {          \
    "aten::__" name "__.Scalar", "T s", Single<core, 0, 1>                 \
  }
#define SHIFT(name, dunder, core)                                                \
  {"aten::bitwise_" name "_shift.Tensor", "T T", Single<core, 0, 1>},            \
      {"aten::bitwise_" name "_shift.Tensor_Scalar", "T s", Single<core, 0, 1>}, \
      {"aten::bitwise_" name "_shift.Scalar_Tensor", "s T", Single<core, 0, 1>}, \
      {"aten::__" dunder "__.Tensor", "T T", Single<core, 0, 1>}, {              \
    "aten::__" dunder "__.Scalar", "T s", Single<core, 0, 1>                     \
  }
#define FOREACH_UNARY(name, core) {"aten::_foreach_" name, "T[]", Each<core, 0>}
#define FOREACH_BINARY(name, core)                                     \
  {"aten::_foreach_" name ".List", "T[] T[]", Each<core, 0, 1>},       \
      {"aten::_foreach_" name ".Scalar", "T[] s", Each<core, 0, 1>}, { \
    "aten::_foreach_" name ".ScalarList", "T[] s[]", Each<core, 0, 1>  \
  }
#define FOREACH_COMPOUND(name, core)                                                \
  {"aten::_foreach_" name ".Scalar", "T[] T[] T[] s", Each<core, 0, 1, 2, 3>}, {    \
    "aten::_foreach_" name ".ScalarList", "T[] T[] T[] s[]", Each<core, 0, 1, 2, 3> \
  }

constexpr Op kAnd = Op::k_bitwise_and, kOr = Op::k_bitwise_or, kXor = Op::k_bitwise_xor;

const Operator kOperators[] = {
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
    {"aten::nan_to_num", "T f? f? f?", Single<NanToNumCore, 0, 1, 2, 3>},

    // Binary
    {"aten::add.Tensor", "x x s", Single<AddCore, 0, 1, 2>},
    {"aten::add.Scalar", "T s s", Single<AddCore, 0, 1, 2>},
    {"aten::sub.Tensor", "x x s", Single<SubCore, 0, 1, 2>},
    {"aten::sub.Scalar", "T s s", Single<SubCore, 0, 1, 2>},
    {"aten::rsub.Tensor", "x x s", Single<RsubCore, 0, 1, 2>},
    {"aten::rsub.Scalar", "T s s", Single<RsubCore, 0, 1, 2>},
    BINARY("mul", MulCore),
    BINARY("div", DivCore),
    BINARY("true_divide", DivCore),
    {"aten::div.Tensor_mode", "x x str?", DivMode},
    {"aten::div.Scalar_mode", "T s str?", DivMode},
    {"aten::floor_divide", "x x", Single<FloorDivCore, 0, 1>},
    {"aten::floor_divide.Scalar", "T s", Single<FloorDivCore, 0, 1>},
    BINARY("fmod", FmodCore),
    BINARY("remainder", RemainderCore),
    {"aten::remainder.Scalar_Tensor", "s T", Single<RemainderCore, 0, 1>},
    {"aten::pow.Tensor_Tensor", "T T", Single<PowCore, 0, 1>},
    {"aten::pow.Tensor_Scalar", "T s", Single<PowCore, 0, 1>},
    {"aten::pow.Scalar", "s T", Single<PowCore, 0, 1>},
    {"aten::atan2", "T T", Single<Float2<Op::k_atan2>, 0, 1>},
    {"aten::hypot", "T T", Single<Same2<Op::k_hypot>, 0, 1>},
    BINARY("copysign", Float2<Op::k_copysign>),
    {"aten::minimum", "T T", Single<Same2<Op::k_minimum>, 0, 1>},
    {"aten::maximum", "T T", Single<Same2<Op::k_maximum>, 0, 1>},
    {"aten::fmin", "T T", Single<FminCore, 0, 1>},
    {"aten::fmax", "T T", Single<FmaxCore, 0, 1>},
    {"aten::xlogy.Tensor", "T T", Single<XlogyCore, 0, 1>},
    {"aten::xlogy.Scalar_Other", "T s", Single<XlogyCore, 0, 1>},
    {"aten::xlogy.Scalar_Self", "s T", Single<XlogyCore, 0, 1>},

    // Truth values and bits
    BINARY("eq", Compare<Op::k_eq>),
    BINARY("ne", Compare<Op::k_ne>),
    BINARY("lt", Compare<Op::k_lt>),
    BINARY("le", Compare<Op::k_le>),
    BINARY("gt", Compare<Op::k_gt>),
    BINARY("ge", Compare<Op::k_ge>),
    UNARY("logical_not", Logic<Op::k_logical_not>),
    {"aten::logical_and", "T T", Single<Logic<Op::k_logical_and>, 0, 1>},
    {"aten::logical_or", "T T", Single<Logic<Op::k_logical_or>, 0, 1>},
    {"aten::logical_xor", "T T", Single<Logic<Op::k_logical_xor>, 0, 1>},
    {"aten::bitwise_not", "T", Single<Bits<Op::k_bitwise_not, Op::k_logical_not>, 0>},
    BITWISE("and", (Bits<kAnd, Op::k_logical_and>)),
    BITWISE("or", (Bits<kOr, Op::k_logical_or>)),
    BITWISE("xor", (Bits<kXor, Op::k_logical_xor>)),
    SHIFT("left", "lshift", Same2<Op::k_shift_left>),
    SHIFT("right", "rshift", Same2<Op::k_shift_right>),
    UNARY("isnan", IsnanCore),
    UNARY("isinf", IsinfCore),
    UNARY("isfinite", IsfiniteCore),

    // Choices and compounds
    {"aten::where.self", "T x x", Single<WhereCore, 0, 1, 2>},
    {"aten::where.ScalarSelf", "T s T", Single<WhereCore, 0, 1, 2>},
    {"aten::where.ScalarOther", "T T s", Single<WhereCore, 0, 1, 2>},
    {"aten::where.Scalar", "T s s", Single<WhereCore, 0, 1, 2>},
    {"aten::masked_fill.Scalar", "T T s", Single<MaskedFillCore, 0, 1, 2>},
    {"aten::masked_fill.Tensor", "T T T", Single<MaskedFillCore, 0, 1, 2>},
    {"aten::clamp", "T s? s?", Single<ClampCore, 0, 1, 2>},
    {"aten::clamp.Tensor", "T T? T?", Single<ClampCore, 0, 1, 2>},
    {"aten::clamp_min", "T s", Single<Same2<Op::k_maximum>, 0, 1>},
    {"aten::clamp_min.Tensor", "T T", Single<Same2<Op::k_maximum>, 0, 1>},
    {"aten::clamp_max", "T s", Single<Same2<Op::k_minimum>, 0, 1>},
    {"aten::clamp_max.Tensor", "T T", Single<Same2<Op::k_minimum>, 0, 1>},
    {"aten::lerp.Scalar", "T T s", Single<LerpCore, 0, 1, 2>},
    {"aten::lerp.Tensor", "T T T", Single<LerpCore, 0, 1, 2>},
    {"prims::fma", "x x x", Single<FmaCore, 0, 1, 2>},
    {"aten::addcmul", "T T T s", Single<AddcmulCore, 0, 1, 2, 3>},
    {"aten::addcdiv", "T T T s", Single<AddcdivCore, 0, 1, 2, 3>},

    // Copies
    {"aten::clone", "T *", Clone},
    {"aten::lift_fresh_copy", "T", Clone},
    {"aten::_to_copy", "T d? * * * * *", Convert},
    {"prims::convert_element_type", "T d", Convert},
    {"aten::copy", "T T *", Copy},
    {"aten::copy_", "T T *", CopyInto, /*mutates_first=*/true},

    // Lists
    FOREACH_UNARY("sqrt", Float1<Op::k_sqrt>),
    FOREACH_UNARY("rsqrt", Float1<Op::k_rsqrt>),
    FOREACH_UNARY("exp", Float1<Op::k_exp>),
    FOREACH_UNARY("reciprocal", Float1<Op::k_reciprocal>),
    FOREACH_UNARY("neg", Same1<Op::k_neg>),
    FOREACH_UNARY("abs", Same1<Op::k_abs>),
    FOREACH_UNARY("sign", Same1<Op::k_sign>),
    {"aten::_foreach_add.List", "T[] T[] s", Each<AddCore, 0, 1, 2>},
    {"aten::_foreach_add.Scalar", "T[] s", Each<AddCore, 0, 1>},
    {"aten::_foreach_add.ScalarList", "T[] s[]", Each<AddCore, 0, 1>},
    {"aten::_foreach_add.Tensor", "T[] T s", Each<AddCore, 0, 1, 2>},
    {"aten::_foreach_sub.List", "T[] T[] s", Each<SubCore, 0, 1, 2>},
    {"aten::_foreach_sub.Scalar", "T[] s", Each<SubCore, 0, 1>},
    {"aten::_foreach_sub.ScalarList", "T[] s[]", Each<SubCore, 0, 1>},
    FOREACH_BINARY("mul", MulCore),
    {"aten::_foreach_mul.Tensor", "T[] T", Each<MulCore, 0, 1>},
    FOREACH_BINARY("div", DivCore),
    {"aten::_foreach_div.Tensor", "T[] T", Each<DivCore, 0, 1>},
    FOREACH_BINARY("maximum", Same2<Op::k_maximum>),
    FOREACH_BINARY("minimum", Same2<Op::k_minimum>),
    FOREACH_BINARY("clamp_min", Same2<Op::k_maximum>),
    FOREACH_BINARY("clamp_max", Same2<Op::k_minimum>),
    FOREACH_BINARY("pow", PowCore),
    {"aten::_foreach_pow.ScalarAndTensor", "s T[]", Each<PowCore, 0, 1>},
    {"aten::_foreach_lerp.List", "T[] T[] T[]", Each<LerpCore, 0, 1, 2>},
    {"aten::_foreach_lerp.Scalar", "T[] T[] s", Each<LerpCore, 0, 1, 2>},
    {"aten::_foreach_lerp.ScalarList", "T[] T[] s[]", Each<LerpCore, 0, 1, 2>},
    FOREACH_COMPOUND("addcmul", AddcmulCore),
    FOREACH_COMPOUND("addcdiv", AddcdivCore),
    {"aten::_foreach_copy", "T[] T[] *", ForeachCopy},
};

}  // namespace

std::span<const Operator> PointwiseOperators() { return kOperators; }

}  // namespace tensord::compiler
