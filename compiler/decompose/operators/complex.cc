// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/operators/complex.h"

#include <limits>
#include <numbers>

namespace tensord::compiler {
namespace {

Elem Sin(Elem x) { return Apply(Op::k_sin, x); }
Elem Cos(Elem x) { return Apply(Op::k_cos, x); }
Elem Sinh(Elem x) { return Apply(Op::k_sinh, x); }
Elem Cosh(Elem x) { return Apply(Op::k_cosh, x); }
Elem Magnitude(ComplexElem z) { return Apply(Op::k_hypot, z.re, z.im); }

// A number times a power of 4, which brings those near the ends of the range well inside: their
// magnitudes may be beyond it, or rounded to few bits, where the parts are not.
struct ScaledElem {
  ComplexElem z;
  Elem is_large, is_small;

  // What undoes the scaling.
  Elem Undo(double of_large, double of_small, double of_others) const {
    return Select(is_large, z.re.Like(of_large), Select(is_small, z.re.Like(of_small), of_others));
  }
};

ScaledElem Scaled(ComplexElem z) {
  constexpr double kLarge = 1e30, kSmall = 1e-30;
  const Elem size = Maximum(Abs(z.re), Abs(z.im));
  const Elem is_large = size > kLarge, is_small = size < kSmall;
  const Elem scale = Select(is_large, z.re.Like(0.25), Select(is_small, z.re.Like(0x1p64), 1.0));
  return {{z.re * scale, z.im * scale}, is_large, is_small};
}

// x where the condition holds, else y.
ComplexElem Choose(Elem condition, ComplexElem x, ComplexElem y) {
  return {Select(condition, x.re, y.re), Select(condition, x.im, y.im)};
}

// i z and -i z: functions of a circle are those of a hyperbola, turned.
ComplexElem TurnedLeft(ComplexElem z) { return {-z.im, z.re}; }
ComplexElem TurnedRight(ComplexElem z) { return {z.im, -z.re}; }

// x y, where a y of 0 makes it 0 whatever x is.
Elem ZeroTimes(Elem x, Elem y) { return Select(Equal(y, 0), y, x * y); }

}  // namespace

ComplexElem operator+(ComplexElem x, ComplexElem y) { return {x.re + y.re, x.im + y.im}; }
ComplexElem operator-(ComplexElem x, ComplexElem y) { return {x.re - y.re, x.im - y.im}; }

ComplexElem operator*(ComplexElem x, ComplexElem y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

ComplexElem operator*(ComplexElem x, double y) { return {x.re * y, x.im * y}; }

ComplexElem operator/(ComplexElem x, ComplexElem y) {
  // With the larger part of y as the divisor; a y of 0 gives infinities.
  const Elem real_is_larger = Abs(y.re) >= Abs(y.im);
  const Elem large = Select(real_is_larger, y.re, y.im), small = Select(real_is_larger, y.im, y.re);
  const Elem ratio = Select(Equal(large, 0), large, small / large);
  const Elem divisor = large + small * ratio;
  const Elem re = Select(real_is_larger, x.re + x.im * ratio, x.re * ratio + x.im);
  const Elem im = Select(real_is_larger, x.im - x.re * ratio, x.im * ratio - x.re);
  return {re / divisor, im / divisor};
}

ComplexElem ComplexReciprocal(ComplexElem z) { return ComplexElem{z.re.Like(1), z.re.Like(0)} / z; }

ComplexElem ComplexSquare(ComplexElem z) { return z * z; }

ComplexElem ComplexSgn(ComplexElem z) {
  const Elem magnitude = Magnitude(z);
  const Elem divisor = Select(Equal(magnitude, 0), 1.0, magnitude);
  return {z.re / divisor, z.im / divisor};
}

ComplexElem ComplexSqrt(ComplexElem z) {
  const ScaledElem scaled = Scaled(z);
  const Elem half = (Magnitude(scaled.z) + Abs(scaled.z.re)) * 0.5;
  const Elem root = Sqrt(half) * scaled.Undo(2, 0x1p-32, 1);
  const Elem other = Select(Equal(root, 0), root, z.im / (root * 2));
  const Elem right = z.re >= 0;
  const ComplexElem result = {Select(right, root, Abs(other)),
                              Select(right, other, Apply(Op::k_copysign, root, z.im))};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Choose(Equal(Abs(z.im), kInfinity), {z.re.Like(kInfinity), z.im}, result);
}

ComplexElem ComplexRsqrt(ComplexElem z) { return ComplexReciprocal(ComplexSqrt(z)); }

ComplexElem ComplexExp(ComplexElem z) {
  // Of large numbers twice that of half the number: one of the parts may be within the range where
  // their size is not.
  constexpr double kLarge = 80;
  const Elem is_large = z.re > kLarge;
  const Elem size = Exp(Select(is_large, z.re * 0.5, z.re)), again = Select(is_large, size, 1.0);
  const ComplexElem result = {size * Cos(z.im) * again,
                              ZeroTimes(again, ZeroTimes(size, Sin(z.im)))};
  // Of minus infinity 0, whatever the angle is; of what only rounds to 0 an angle is needed.
  return Choose(Equal(z.re, -std::numeric_limits<double>::infinity()), {size, size}, result);
}

ComplexElem ComplexExp2(ComplexElem z) { return ComplexExp(z * std::numbers::ln2); }

ComplexElem ComplexExpm1(ComplexElem z) {
  const Elem half = Sin(z.im * 0.5);
  return {Expm1(z.re) * Cos(z.im) - half * half * 2, ZeroTimes(Exp(z.re), Sin(z.im))};
}

ComplexElem ComplexLog(ComplexElem z) {
  using std::numbers::ln2;
  const ScaledElem scaled = Scaled(z);
  return {Log(Magnitude(scaled.z)) + scaled.Undo(2 * ln2, -64 * ln2, 0),
          Apply(Op::k_atan2, z.im, z.re)};
}

ComplexElem ComplexLog2(ComplexElem z) { return ComplexLog(z) * (1 / std::numbers::ln2); }
ComplexElem ComplexLog10(ComplexElem z) { return ComplexLog(z) * (1 / std::numbers::ln10); }

ComplexElem ComplexLog1p(ComplexElem z) {
  const Elem excess = z.re * (z.re + 2) + z.im * z.im;  // of the magnitude's square over 1
  const Elem near_one = Select(Equal(excess, 0), z.re, Log1p(excess) * 0.5);
  const Elem far = Log(Apply(Op::k_hypot, z.re + 1, z.im));
  return {Select(Magnitude(z) < 0.5, near_one, far), Apply(Op::k_atan2, z.im, z.re + 1)};
}

ComplexElem ComplexSinh(ComplexElem z) {
  return {ZeroTimes(Cos(z.im), Sinh(z.re)), ZeroTimes(Cosh(z.re), Sin(z.im))};
}

ComplexElem ComplexCosh(ComplexElem z) {
  const Elem sinh = Sinh(z.re);
  return {Cosh(z.re) * Cos(z.im), Select(Equal(sinh, 0), sinh, ZeroTimes(sinh, Sin(z.im)))};
}

ComplexElem ComplexTanh(ComplexElem z) {
  // Kahan's: with t = tan(im) and s = sinh(re), (s sqrt(1 + s^2) (1 + t^2) + i t) / (1 + s^2 (1 +
  // t^2)). Far out it is 1 or -1, before the squares overflow.
  constexpr double kFar = 20;
  const Elem t = Apply(Op::k_tan, z.im), s = Sinh(Clamp(z.re, -kFar, kFar));
  const Elem beta = t * t + 1, square = s * s;
  const Elem divisor = beta * square + 1;
  const ComplexElem result = {beta * Sqrt(square + 1) * s / divisor, t / divisor};
  const ComplexElem limit = {Apply(Op::k_copysign, z.re.Like(1), z.re), z.im.Like(0)};
  return Choose(Abs(z.re) > kFar, limit, result);
}

ComplexElem ComplexSin(ComplexElem z) { return TurnedRight(ComplexSinh(TurnedLeft(z))); }
ComplexElem ComplexCos(ComplexElem z) { return ComplexCosh(TurnedLeft(z)); }
ComplexElem ComplexTan(ComplexElem z) { return TurnedRight(ComplexTanh(TurnedLeft(z))); }

ComplexElem ComplexSigmoid(ComplexElem z) {
  const ComplexElem e = ComplexExp({-z.re, -z.im});
  return ComplexReciprocal({e.re + 1, e.im});
}

}  // namespace tensord::compiler
