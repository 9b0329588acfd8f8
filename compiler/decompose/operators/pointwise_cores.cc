// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/operators/pointwise_cores.h"

#include <cmath>
#include <limits>
#include <optional>

namespace tensord::compiler {
namespace {

using Elems = std::span<const Elem>;

Formula Bind(Op op) {
  return [op](Elems v) { return v.size() == 1 ? Apply(op, v[0]) : Apply(op, v[0], v[1]); };
}

// A known number; nothing for tensors and symbolic integers.
std::optional<double> KnownNumber(const Operand& arg) {
  const auto* s = std::get_if<Scalar>(&arg);
  if (s == nullptr || !s->IsKnown()) return std::nullopt;
  return s->AsDouble();
}

bool IsOne(const Operand& arg) { return IsNone(arg) || KnownNumber(arg) == 1.0; }

const Tensor& TensorOf(const Operand& arg) { return std::get<Tensor>(arg); }

// x^n by squaring, n >= 1.
Elem PowerOf(Elem x, int64_t n) {
  std::optional<Elem> product;
  for (Elem square = x; n > 0; n >>= 1) {
    if (n & 1) product = product ? *product * square : square;
    if (n > 1) square = square * square;
  }
  return *product;
}

// The operands of a sum. Eager on the CPU rounds numbers to the type of the tensors beside them,
// unlike those of products.
std::vector<Tensor> Terms(Builder& b, Operands args, DType dtype) {
  if (!b.eager_rounding() || b.device() != v1::DEVICE_TYPE_CPU) return ToTensors(b, args, dtype);
  std::vector<Tensor> terms;
  for (const Operand& arg : args) {
    const auto* s = std::get_if<Scalar>(&arg);
    terms.push_back(s != nullptr ? ScalarTensor(b, *s, dtype) : ToTensor(b, arg, dtype));
  }
  return terms;
}

// a + sign * alpha * c.
OneResult AddScaled(Builder& b, const Operand& a, const Operand& c, const Operand& alpha, Op op,
                    DType declared) {
  const Operand both[] = {a, c};
  const DType dtype = CommonType(both, declared);
  if (dtype == kBool) return SameBinary(b, both, declared, Op::k_logical_or);
  if (IsOne(alpha)) return Emit(b, dtype, Terms(b, both, dtype), Bind(op));
  const Operand all[] = {a, c, alpha};
  return Emit(b, dtype, Terms(b, all, dtype),
              [op](Elems v) { return Apply(op, v[0], v[2] * v[1]); });
}

// Python's floor division of floats, exact where a rounded quotient would be one too high.
Elem FloorDivide(Elem x, Elem y) {
  const Elem quotient = x / y;
  const Elem rest = Apply(Op::k_fmod, x, y);
  Elem whole = (x - rest) / y;
  whole = Select(And(NotEqual(rest, 0.0), NotEqual(rest < 0.0, y < 0.0)), whole - 1.0, whole);
  Elem floor = Apply(Op::k_floor, whole);
  floor = Select(whole - floor > 0.5, floor + 1.0, floor);
  floor = Select(Equal(whole, 0.0), Apply(Op::k_copysign, whole.Like(0), quotient), floor);
  return Select(Equal(y, 0.0), quotient, floor);
}

Elem FloatRemainder(Elem x, Elem y) {
  const Elem rest = Apply(Op::k_fmod, x, y);
  return Select(And(NotEqual(rest, 0.0), NotEqual(rest < 0.0, y < 0.0)), rest + y, rest);
}

// An integer quotient or rest of two operands, which `f` computes.
OneResult DivideIntegers(Builder& b, Operands args, DType dtype, const Formula& f) {
  const bool checks = b.checks_divisors() && dtype != kBool;
  return Emit(b, dtype, ToTensors(b, args, dtype), [f, checks](Elems v) {
    const Elem operands[] = {v[0], checks ? v[1].Nonzero() : v[1]};
    return f(operands);
  });
}

// Limits of a floating type: what nan_to_num puts for infinities.
double LargestOf(DType dtype) {
  switch (dtype) {
    case v1::DTYPE_FLOAT16:
      return 65504.0;
    case v1::DTYPE_BFLOAT16:
      return 3.3895313892515355e38;
    case v1::DTYPE_FLOAT8_E4M3FN:
      return 448.0;
    case v1::DTYPE_FLOAT8_E5M2:
      return 57344.0;
    case v1::DTYPE_FLOAT64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

OneResult Bool(Builder& b, const Operand& arg, bool value) {
  return b.FullInt(kBool, TensorOf(arg).sizes(), value ? 1 : 0);
}

// A truth test of floats that no integer passes (or, `of_integers`, that every integer passes).
OneResult FloatTest(Builder& b, Operands args, bool of_integers, const Formula& f) {
  if (!IsFloating(TensorOf(args[0]).dtype())) return Bool(b, args[0], of_integers);
  return Emit(b, kBool, {TensorOf(args[0])}, f);
}

}  // namespace

// ---- By operation

OneResult FloatUnary(Builder& b, Operands args, DType declared, Op op) {
  const DType dtype = FloatCommonType(args, declared);
  return Emit(b, dtype, ToTensors(b, args, dtype), Bind(op));
}

OneResult RoundingUnary(Builder& b, Operands args, DType, Op op) {
  const Tensor& t = TensorOf(args[0]);
  if (!IsFloating(t.dtype())) return LazyCopy(b, t);
  return Emit(b, t.dtype(), {t}, Bind(op));
}

OneResult SameUnary(Builder& b, Operands args, DType, Op op) {
  const Tensor& t = TensorOf(args[0]);
  if (t.dtype() == kBool)
    return LazyCopy(b, t);  // neg is refused by eager; abs and sign keep bools
  return Emit(b, t.dtype(), {t}, Bind(op));
}

OneResult SameBinary(Builder& b, Operands args, DType declared, Op op) {
  const DType dtype = CommonType(args, declared);
  return Emit(b, dtype, ToTensors(b, args, dtype), Bind(op));
}

OneResult FloatBinary(Builder& b, Operands args, DType declared, Op op) {
  const DType dtype = FloatCommonType(args, declared);
  return Emit(b, dtype, ToTensors(b, args, dtype), Bind(op));
}

OneResult Comparison(Builder& b, Operands args, DType declared, Op op) {
  const DType dtype = CommonType(args, v1::DTYPE_UNSPECIFIED);
  std::vector<Tensor> tensors;
  for (const Operand& arg : args) {
    // Unlike in arithmetic, eager compares with numbers rounded to the tensor's type.
    const auto* s = std::get_if<Scalar>(&arg);
    tensors.push_back(s != nullptr ? ScalarTensor(b, *s, dtype) : ToTensor(b, arg, dtype));
  }
  if (IsFloating(dtype) && ComputeType(dtype) != dtype) {
    // What is computed wider than it is stored equals its own stored value once it is rounded; and
    // what is equal is neither less nor greater, or gradients of ties would not add up.
    return Emit(b, kBool, tensors,
                [op, dtype](Elems v) { return Apply(op, v[0].Stored(dtype), v[1].Stored(dtype)); });
  }
  return Emit(b, kBool, tensors, Bind(op));
}

OneResult Logical(Builder& b, Operands args, DType, Op op) {
  return Emit(b, kBool, ToTensors(b, args, kBool), Bind(op));
}

OneResult Bitwise(Builder& b, Operands args, DType declared, Op op, Op logical) {
  return SameBinary(b, args, declared, CommonType(args, declared) == kBool ? logical : op);
}

// ---- Arithmetic

OneResult AddCore(Builder& b, Operands args, DType declared) {
  const Operand alpha = args.size() > 2 ? args[2] : Operand();
  return AddScaled(b, args[0], args[1], alpha, Op::k_add, declared);
}

OneResult SubCore(Builder& b, Operands args, DType declared) {
  const Operand alpha = args.size() > 2 ? args[2] : Operand();
  return AddScaled(b, args[0], args[1], alpha, Op::k_sub, declared);
}

OneResult RsubCore(Builder& b, Operands args, DType declared) {
  return AddScaled(b, args[1], args[0], args[2], Op::k_sub, declared);
}

OneResult MulCore(Builder& b, Operands args, DType declared) {
  return Bitwise(b, args, declared, Op::k_mul, Op::k_logical_and);
}

OneResult DivCore(Builder& b, Operands args, DType declared) {
  return FloatBinary(b, args, declared, Op::k_div);
}

OneResult TruncDivCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (!IsFloating(dtype)) return DivideIntegers(b, args, dtype, Bind(Op::k_trunc_div));
  return Emit(b, dtype, ToTensors(b, args, dtype),
              [](Elems v) { return Apply(Op::k_trunc, v[0] / v[1]); });
}

OneResult FloorDivCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (!IsFloating(dtype)) return DivideIntegers(b, args, dtype, Bind(Op::k_floor_div));
  return Emit(b, dtype, ToTensors(b, args, dtype), [](Elems v) { return FloorDivide(v[0], v[1]); });
}

OneResult FmodCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (IsFloating(dtype)) return SameBinary(b, args, declared, Op::k_fmod);
  return DivideIntegers(b, args, dtype,
                        [](Elems v) { return v[0] - Apply(Op::k_trunc_div, v[0], v[1]) * v[1]; });
}

OneResult RemainderCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (!IsFloating(dtype)) return DivideIntegers(b, args, dtype, Bind(Op::k_mod));
  return Emit(b, dtype, ToTensors(b, args, dtype),
              [](Elems v) { return FloatRemainder(v[0], v[1]); });
}

OneResult PowCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  const std::optional<double> exponent = KnownNumber(args[1]);
  const bool floating = IsFloating(dtype);
  // Products are exact to a few units in the last place only while there are few of them.
  const double most = floating ? 16 : 1e6;
  if (exponent && *exponent == std::floor(*exponent) && std::abs(*exponent) <= most) {
    const auto n = static_cast<int64_t>(*exponent);
    const Tensor base = ToTensor(b, args[0], dtype);
    if (n == 0) return b.Full(dtype, base.sizes(), 1.0);
    if (n > 0) return Emit(b, dtype, {base}, [n](Elems v) { return PowerOf(v[0], n); });
    if (floating) {
      return Emit(b, dtype, {base}, [n](Elems v) { return Reciprocal(PowerOf(v[0], -n)); });
    }
  }
  if (!floating) return absl::UnimplementedError("a power of integers is left to the library");
  if (exponent == 0.5) return FloatUnary(b, args.first(1), dtype, Op::k_sqrt);
  if (exponent == -0.5) return FloatUnary(b, args.first(1), dtype, Op::k_rsqrt);
  if (KnownNumber(args[0]) == 2.0) {
    return Emit(b, dtype, {ToTensor(b, args[1], dtype)}, Bind(Op::k_exp2));
  }
  return SameBinary(b, args, declared, Op::k_pow);
}

OneResult SquareCore(Builder& b, Operands args, DType) {
  const Tensor& t = TensorOf(args[0]);
  if (t.dtype() == kBool) return b.Cast(t, kInt64);
  return Emit(b, t.dtype(), {t}, [](Elems v) { return v[0] * v[0]; });
}

OneResult FracCore(Builder& b, Operands args, DType) {
  if (!IsFloating(TensorOf(args[0]).dtype())) return absl::UnimplementedError("frac of integers");
  return Emit(b, TensorOf(args[0]).dtype(), {TensorOf(args[0])},
              [](Elems v) { return v[0] - Apply(Op::k_trunc, v[0]); });
}

OneResult XlogyCore(Builder& b, Operands args, DType declared) {
  const DType dtype = FloatCommonType(args, declared);
  return Emit(b, dtype, ToTensors(b, args, dtype), [](Elems v) {
    const Elem product = Select(Equal(v[0], 0.0), 0.0, v[0] * Log(v[1]));
    return Select(IsNan(v[1]), v[1], product);
  });
}

// ---- Choices

OneResult FminCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (!IsFloating(dtype)) return SameBinary(b, args, declared, Op::k_minimum);
  return Emit(b, dtype, ToTensors(b, args, dtype), [](Elems v) {
    return Select(IsNan(v[0]), v[1], Select(IsNan(v[1]), v[0], Minimum(v[0], v[1])));
  });
}

OneResult FmaxCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  if (!IsFloating(dtype)) return SameBinary(b, args, declared, Op::k_maximum);
  return Emit(b, dtype, ToTensors(b, args, dtype), [](Elems v) {
    return Select(IsNan(v[0]), v[1], Select(IsNan(v[1]), v[0], Maximum(v[0], v[1])));
  });
}

OneResult ClampCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args, declared);
  const bool has_low = !IsNone(args[1]), has_high = args.size() > 2 && !IsNone(args[2]);
  return Emit(b, dtype, ToTensors(b, args, dtype), [has_low, has_high](Elems v) {
    Elem x = v[0];
    if (has_low) x = Maximum(x, v[1]);
    if (has_high) x = Minimum(x, v.back());
    return x;
  });
}

OneResult WhereCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args.subspan(1), declared);
  return Emit(
      b, dtype,
      {ToTensor(b, args[0], kBool), ToTensor(b, args[1], dtype), ToTensor(b, args[2], dtype)},
      [](Elems v) { return Select(v[0], v[1], v[2]); });
}

OneResult MaskedFillCore(Builder& b, Operands args, DType) {
  const DType dtype = TensorOf(args[0]).dtype();
  return Emit(
      b, dtype,
      {ToTensor(b, args[0], dtype), ToTensor(b, args[1], kBool), ToTensor(b, args[2], dtype)},
      [](Elems v) { return Select(v[1], v[2], v[0]); });
}

// ---- Compounds

// From the end that is nearer, so that weights 0 and 1 give the ends exactly.
OneResult LerpCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args.first(2), declared);
  const std::optional<double> weight = KnownNumber(args[2]);
  return Emit(b, dtype, ToTensors(b, args, dtype), [weight](Elems v) {
    const Elem difference = v[1] - v[0];
    const Elem near_start = v[0] + v[2] * difference;
    const Elem near_end = v[1] - difference * (1.0 - v[2]);
    if (weight) return std::abs(*weight) < 0.5 ? near_start : near_end;
    return Select(Abs(v[2]) < 0.5, near_start, near_end);
  });
}

OneResult AddcmulCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args.first(3), declared);
  const bool scaled = !IsOne(args[3]);
  return Emit(b, dtype, ToTensors(b, args.first(scaled ? 4 : 3), dtype),
              [scaled](Elems v) { return v[0] + (scaled ? v[3] * v[1] * v[2] : v[1] * v[2]); });
}

// a * b + c, rounded once.
OneResult FmaCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args.first(3), declared);
  if (!IsFloating(dtype)) return absl::UnimplementedError("fma of integers");
  return Emit(b, dtype, ToTensors(b, args.first(3), dtype), [](Elems v) {
    Recorder* ops = v[0].ops;
    return Elem{ops, ops->Compute(Op::k_fma, {v[0].value, v[1].value, v[2].value})};
  });
}

OneResult AddcdivCore(Builder& b, Operands args, DType declared) {
  const DType dtype = CommonType(args.first(3), declared);
  if (!IsFloating(dtype)) return absl::UnimplementedError("addcdiv of integers");
  const bool scaled = !IsOne(args[3]);
  return Emit(b, dtype, ToTensors(b, args.first(scaled ? 4 : 3), dtype),
              [scaled](Elems v) { return v[0] + (scaled ? v[3] * v[1] / v[2] : v[1] / v[2]); });
}

// ---- Tests of floats

OneResult IsnanCore(Builder& b, Operands args, DType) {
  return FloatTest(b, args, false, [](Elems v) { return IsNan(v[0]); });
}

OneResult IsinfCore(Builder& b, Operands args, DType) {
  return FloatTest(b, args, false, Bind(Op::k_isinf));
}

OneResult IsfiniteCore(Builder& b, Operands args, DType) {
  return FloatTest(b, args, true,
                   [](Elems v) { return Not(Or(IsNan(v[0]), Apply(Op::k_isinf, v[0]))); });
}

// self, and what replaces NaN, +inf and -inf: numbers or none.
OneResult NanToNumCore(Builder& b, Operands args, DType) {
  const Tensor& t = TensorOf(args[0]);
  if (!IsFloating(t.dtype())) return LazyCopy(b, t);
  const double largest = LargestOf(t.dtype());
  const double nan = KnownNumber(args[1]).value_or(0);
  const double positive = KnownNumber(args[2]).value_or(largest);
  const double negative = KnownNumber(args[3]).value_or(-largest);
  return Emit(b, t.dtype(), {t}, [=](Elems v) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Elem finite =
        Select(Equal(v[0], kInfinity), positive, Select(Equal(v[0], -kInfinity), negative, v[0]));
    return Select(IsNan(v[0]), nan, finite);
  });
}

}  // namespace tensord::compiler
