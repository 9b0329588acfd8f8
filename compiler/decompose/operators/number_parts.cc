// SPDX-License-Identifier: Apache-2.0
// Operators on how a number is written: its sign, its exponent, its neighbours, its decimals.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/decompose/operators/pointwise_cores.h"

namespace tensord::compiler {
namespace {

using Elems = std::span<const Elem>;

OneResult Signbit(Builder& b, Operands args, DType) {
  const auto& t = std::get<Tensor>(args[0]);
  if (t.dtype() == kBool) return b.FullInt(kBool, t.sizes(), 0);
  const bool floating = IsFloating(t.dtype());
  return Emit(b, kBool, {t}, [floating](Elems v) {
    // The comparison alone sees no sign of zero and NaN.
    return (floating ? Apply(Op::k_copysign, v[0].Like(1), v[0]) : v[0]) < 0.0;
  });
}

// Of a real number as a complex one: pi below 0.
OneResult Angle(Builder& b, Operands args, DType declared) {
  const DType dtype = FloatCommonType(args, declared);
  if (b.device() == v1::DEVICE_TYPE_CUDA && dtype != kFloat32 && dtype != kFloat64) {
    return absl::UnimplementedError("an angle of narrow floats, which eager refuses on a GPU");
  }
  return Emit(b, dtype, ToTensors(b, args, dtype), [](Elems v) {
    return Select(IsNan(v[0]), v[0], Select(v[0] < 0.0, v[0].Like(std::numbers::pi), 0.0));
  });
}

// Floats in the order of their size are integers in the order of their bits.
OneResult NextAfter(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (dtype != kFloat32 && dtype != kFloat64) {
    return absl::UnimplementedError("neighbours of what is computed in another type");
  }
  return Emit(b, dtype, ToTensors(b, args, dtype), [dtype](Elems v) {
    const Elem x = v[0], y = v[1];
    Recorder* const ops = x.ops;
    const Elem bits{ops, ops->Bitcast(x.value, dtype == kFloat64 ? kInt64 : kInt32)};
    const auto of_bits = [&](Elem e) { return Elem{ops, ops->Bitcast(e.value, dtype)}; };
    const Elem grows = Equal(y > x, x > 0.0);
    const Elem moved = of_bits(bits + Select(grows, bits.Like(1), bits.Like(-1)));
    const Elem least = Apply(Op::k_copysign, of_bits(bits.Like(1)), y);
    const Elem next = Select(Equal(x, y), y, Select(Equal(x, 0.0), least, moved));
    return Select(Or(IsNan(x), IsNan(y)), x + y, next);
  });
}

// Eager's formula self * 2^other. The power has other's type, or the default one of integers.
OneResult Ldexp(Builder& b, Operands args, DType declared) {
  const DType of_power = std::get<Tensor>(args[1]).dtype();
  if (!IsFloating(of_power) && declared == kFloat64) {
    return absl::UnimplementedError("a power in the job's default type");
  }
  const DType dtype = IsFloating(of_power) ? of_power : kFloat32;
  TENSORD_ASSIGN_OR_RETURN(const Tensor power, FloatUnary(b, args.subspan(1), dtype, Op::k_exp2));
  const Operand factors[] = {args[0], power};
  return MulCore(b, factors, declared);
}

// Mantissa and exponent.
Results Frexp(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  if (!IsFloating(t.dtype())) return absl::UnimplementedError("frexp of integers");
  TENSORD_ASSIGN_OR_RETURN(const Tensor mantissa, Emit(b, t.dtype(), {t}, [](Elems v) {
                             return Apply(Op::k_frexp_mantissa, v[0]);
                           }));
  TENSORD_ASSIGN_OR_RETURN(const Tensor exponent, Emit(b, kInt32, {t}, [](Elems v) {
                             return Apply(Op::k_frexp_exponent, v[0]).To(kInt32);
                           }));
  return std::vector<Tensor>{mantissa, exponent};
}

// To so many digits behind the point, or to tens, hundreds and so on where they are negative. By a
// power of ten of the type that is computed in, infinite where it has none, as eager.
Results RoundDecimals(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  if (!IsFloating(t.dtype()) || !call.integer("decimals").IsConstant()) {
    return absl::UnimplementedError("decimals of integers, or a symbolic number of them");
  }
  const int64_t decimals = call.constant("decimals");
  double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (t.dtype() != kFloat64) power = static_cast<float>(power);
  TENSORD_ASSIGN_OR_RETURN(const Tensor result, Emit(b, t.dtype(), {t}, [=](Elems v) {
                             if (decimals == 0) return Apply(Op::k_round, v[0]);
                             return decimals < 0 ? Apply(Op::k_round, v[0] / power) * power
                                                 : Apply(Op::k_round, v[0] * power) / power;
                           }));
  return std::vector<Tensor>{result};
}

const Lowering kNumberPartsLowerings[] = {
    {"aten::signbit", Single<Signbit>},     {"aten::angle", Single<Angle>},
    {"aten::nextafter", Single<NextAfter>}, {"aten::ldexp.Tensor", Single<Ldexp>},
    {"aten::frexp.Tensor", Frexp},          {"aten::round.decimals", RoundDecimals},
};

}  // namespace

std::span<const Lowering> NumberPartLowerings() { return kNumberPartsLowerings; }

}  // namespace tensord::compiler
