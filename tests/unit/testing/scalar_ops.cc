#include "tests/unit/testing/scalar_ops.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "base/check.h"

namespace tensord::testing {
namespace {

using compiler::Op;

double Sign(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }
double Digamma(double x) {
  double shift = 0;
  while (x < 10) shift -= 1 / x, x += 1;
  const double f = 1 / (x * x);
  return shift + std::log(x) - 0.5 / x -
         f * (1.0 / 12 - f * (1.0 / 120 - f * (1.0 / 252 - f / 240)));
}
double ErfInv(double y) {
  if (!(std::abs(y) < 1)) return y == 1 || y == -1 ? y * INFINITY : NAN;
  double x = 0;
  // Newton's method on erf, started from Winitzki's approximation.
  const double l = std::log1p(-y * y), t = 2 / (std::numbers::pi * 0.147) + l / 2;
  x = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 4; ++i)
    x -= (std::erf(x) - y) / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  return x;
}
double FloorMod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double Minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double Maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

using Unary = double (*)(double);
using Binary = double (*)(double, double);

const std::map<Op, Unary>& UnaryReals() {
  static const std::map<Op, Unary> table = {
      {Op::k_neg, [](double x) { return -x; }},
      {Op::k_abs, [](double x) { return std::abs(x); }},
      {Op::k_sqrt, [](double x) { return std::sqrt(x); }},
      {Op::k_rsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {Op::k_reciprocal, [](double x) { return 1 / x; }},
      {Op::k_exp, [](double x) { return std::exp(x); }},
      {Op::k_exp2, [](double x) { return std::exp2(x); }},
      {Op::k_expm1, [](double x) { return std::expm1(x); }},
      {Op::k_log, [](double x) { return std::log(x); }},
      {Op::k_log2, [](double x) { return std::log2(x); }},
      {Op::k_log10, [](double x) { return std::log10(x); }},
      {Op::k_log1p, [](double x) { return std::log1p(x); }},
      {Op::k_sin, [](double x) { return std::sin(x); }},
      {Op::k_cos, [](double x) { return std::cos(x); }},
      {Op::k_tan, [](double x) { return std::tan(x); }},
      {Op::k_asin, [](double x) { return std::asin(x); }},
      {Op::k_acos, [](double x) { return std::acos(x); }},
      {Op::k_atan, [](double x) { return std::atan(x); }},
      {Op::k_sinh, [](double x) { return std::sinh(x); }},
      {Op::k_cosh, [](double x) { return std::cosh(x); }},
      {Op::k_tanh, [](double x) { return std::tanh(x); }},
      {Op::k_asinh, [](double x) { return std::asinh(x); }},
      {Op::k_acosh, [](double x) { return std::acosh(x); }},
      {Op::k_atanh, [](double x) { return std::atanh(x); }},
      {Op::k_erf, [](double x) { return std::erf(x); }},
      {Op::k_erfc, [](double x) { return std::erfc(x); }},
      {Op::k_normal_cdf, [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }},
      {Op::k_normal_pdf,
       [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }},
      {Op::k_erfinv, ErfInv},
      {Op::k_lgamma, [](double x) { return std::lgamma(x); }},
      {Op::k_digamma, Digamma},
      {Op::k_sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Op::k_floor, [](double x) { return std::floor(x); }},
      {Op::k_ceil, [](double x) { return std::ceil(x); }},
      {Op::k_round, [](double x) { return std::nearbyint(x); }},
      {Op::k_trunc, [](double x) { return std::trunc(x); }},
      {Op::k_sign, Sign},
      {Op::k_relu, [](double x) { return std::isnan(x) ? x : std::max(x, 0.0); }},
  };
  return table;
}

const std::map<Op, Binary>& BinaryReals() {
  static const std::map<Op, Binary> table = {
      {Op::k_add, [](double a, double b) { return a + b; }},
      {Op::k_sub, [](double a, double b) { return a - b; }},
      {Op::k_mul, [](double a, double b) { return a * b; }},
      {Op::k_div, [](double a, double b) { return a / b; }},
      {Op::k_floor_div, [](double a, double b) { return std::floor(a / b); }},
      {Op::k_trunc_div, [](double a, double b) { return std::trunc(a / b); }},
      {Op::k_mod, FloorMod},
      {Op::k_fmod, [](double a, double b) { return std::fmod(a, b); }},
      {Op::k_pow, [](double a, double b) { return std::pow(a, b); }},
      {Op::k_atan2, [](double a, double b) { return std::atan2(a, b); }},
      {Op::k_minimum, Minimum},
      {Op::k_maximum, Maximum},
      {Op::k_copysign, [](double a, double b) { return std::copysign(a, b); }},
      {Op::k_hypot, [](double a, double b) { return std::hypot(a, b); }},
      {Op::k_nextafter,
       [](double a, double b) {
         return static_cast<double>(std::nextafter(static_cast<float>(a), static_cast<float>(b)));
       }},
  };
  return table;
}

int64_t FloorDivide(int64_t a, int64_t b) {
  TENSORD_CHECK(b != 0, "integer division by zero");
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t Power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, b = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, b *= b) {
    if (exponent & 1) result *= b;
  }
  return static_cast<int64_t>(result);
}

using UnaryInt = int64_t (*)(int64_t);
using BinaryInt = int64_t (*)(int64_t, int64_t);

const std::map<Op, UnaryInt>& UnaryIntegers() {
  static const std::map<Op, UnaryInt> table = {
      {Op::k_neg, [](int64_t x) { return -x; }},
      {Op::k_abs, [](int64_t x) { return x < 0 ? -x : x; }},
      {Op::k_sign, [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }},
      {Op::k_relu, [](int64_t x) { return x < 0 ? 0 : x; }},
      {Op::k_floor, [](int64_t x) { return x; }},
      {Op::k_ceil, [](int64_t x) { return x; }},
      {Op::k_round, [](int64_t x) { return x; }},
      {Op::k_trunc, [](int64_t x) { return x; }},
  };
  return table;
}

const std::map<Op, BinaryInt>& BinaryIntegers() {
  static const std::map<Op, BinaryInt> table = {
      {Op::k_add, [](int64_t a, int64_t b) { return a + b; }},
      {Op::k_sub, [](int64_t a, int64_t b) { return a - b; }},
      {Op::k_mul, [](int64_t a, int64_t b) { return a * b; }},
      {Op::k_div, FloorDivide},
      {Op::k_floor_div, FloorDivide},
      {Op::k_trunc_div, [](int64_t a, int64_t b) { return a / b; }},
      {Op::k_mod, [](int64_t a, int64_t b) { return a - FloorDivide(a, b) * b; }},
      {Op::k_fmod, [](int64_t a, int64_t b) { return a % b; }},
      {Op::k_pow, Power},
      {Op::k_minimum, [](int64_t a, int64_t b) { return a < b ? a : b; }},
      {Op::k_maximum, [](int64_t a, int64_t b) { return a < b ? b : a; }},
      {Op::k_bitwise_and, [](int64_t a, int64_t b) { return a & b; }},
      {Op::k_bitwise_or, [](int64_t a, int64_t b) { return a | b; }},
      {Op::k_bitwise_xor, [](int64_t a, int64_t b) { return a ^ b; }},
      {Op::k_shift_left, [](int64_t a, int64_t b) { return a << b; }},
      {Op::k_shift_right, [](int64_t a, int64_t b) { return a >> b; }},
  };
  return table;
}

// Philox4x32-10 (Salmon et al. 2011): counter {element lo, element hi, stream, 0}, key = seed.
std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t block, uint32_t stream) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                               stream, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

double UnitReal(uint32_t word) { return (word >> 8) * 0x1p-24; }

bool Truth(Cell c, bool is_real) { return is_real ? c.real != 0 : c.integer != 0; }

// Comparisons and logic, on operands of any type.
const std::map<Op, bool (*)(Cell, Cell, bool)>& Relations() {
#define TENSORD_RELATION(op) \
  [](Cell a, Cell b, bool is_real) { return is_real ? a.real op b.real : a.integer op b.integer; }
  static const std::map<Op, bool (*)(Cell, Cell, bool)> table = {
      {Op::k_eq, TENSORD_RELATION(==)},
      {Op::k_ne, TENSORD_RELATION(!=)},
      {Op::k_lt, TENSORD_RELATION(<)},
      {Op::k_le, TENSORD_RELATION(<=)},
      {Op::k_gt, TENSORD_RELATION(>)},
      {Op::k_ge, TENSORD_RELATION(>=)},
      {Op::k_logical_and, [](Cell a, Cell b, bool r) { return Truth(a, r) && Truth(b, r); }},
      {Op::k_logical_or, [](Cell a, Cell b, bool r) { return Truth(a, r) || Truth(b, r); }},
      {Op::k_logical_xor, [](Cell a, Cell b, bool r) { return Truth(a, r) != Truth(b, r); }},
  };
#undef TENSORD_RELATION
  return table;
}

template <typename Table>
const typename Table::mapped_type* Find(const Table& table, Op op) {
  const auto it = table.find(op);
  return it == table.end() ? nullptr : &it->second;
}

Cell Real(double x) { return {.real = x}; }
Cell Integer(int64_t x) { return {.integer = x}; }

}  // namespace

Cell CastCell(Cell value, DType from, DType to) {
  const bool was_real = compiler::IsFloating(from);
  if (compiler::IsFloating(to)) {
    return Real(RoundTo(was_real ? value.real : static_cast<double>(value.integer), to));
  }
  if (to == compiler::kBool) return Integer(Truth(value, was_real));
  int64_t x = value.integer;
  if (was_real) {
    // What is out of range is undefined in C++; any value will do.
    x = std::isfinite(value.real) && std::abs(value.real) < 0x1p63
            ? static_cast<int64_t>(value.real)
            : std::numeric_limits<int64_t>::min();
  }
  const int bits = static_cast<int>(compiler::ItemSize(to)) * 8;
  if (bits == 64) return Integer(x);
  const int64_t low = x & ((int64_t{1} << bits) - 1);
  const bool negative = !compiler::IsUnsigned(to) && (low >> (bits - 1)) != 0;
  return Integer(negative ? low - (int64_t{1} << bits) : low);
}

Cell EvaluateOp(Op op, DType dtype, const std::vector<Cell>& args) {
  const bool is_real = compiler::IsFloating(dtype);
  if (op == Op::k_where) return args[0].integer != 0 ? args[1] : args[2];
  if (op == Op::k_isnan) return Integer(is_real && std::isnan(args[0].real));
  if (op == Op::k_isinf) return Integer(is_real && std::isinf(args[0].real));
  if (op == Op::k_logical_not) return Integer(!Truth(args[0], is_real));
  if (op == Op::k_bitwise_not) {
    return Integer(dtype == compiler::kBool ? !args[0].integer : ~args[0].integer);
  }
  if (op == Op::k_fma) {
    return is_real ? Real(args[0].real * args[1].real + args[2].real)
                   : Integer(args[0].integer * args[1].integer + args[2].integer);
  }
  if (op == Op::k_philox_uniform || op == Op::k_philox_normal) {
    const auto element = static_cast<uint64_t>(args[2].integer);
    const uint64_t of_block = op == Op::k_philox_uniform ? 4 : 2;
    const auto words = Philox(static_cast<uint64_t>(args[0].integer), element / of_block,
                              static_cast<uint32_t>(args[1].integer));
    const double first = UnitReal(words[element % of_block * (4 / of_block)]);
    if (op == Op::k_philox_uniform) return Real(first);
    const double second = UnitReal(words[element % of_block * 2 + 1]);
    return Real(std::sqrt(-2 * std::log1p(-first)) * std::cos(2 * std::numbers::pi * second));
  }
  if (const auto* relation = Find(Relations(), op)) {
    return Integer((*relation)(args[0], args[1], is_real));
  }
  if (is_real) {
    if (const auto* f = Find(UnaryReals(), op)) return Real((*f)(args[0].real));
    if (const auto* f = Find(BinaryReals(), op)) return Real((*f)(args[0].real, args[1].real));
  } else {
    Cell result;
    if (const auto* f = Find(UnaryIntegers(), op)) {
      result = Integer((*f)(args[0].integer));
    } else if (const auto* g = Find(BinaryIntegers(), op)) {
      result = Integer((*g)(args[0].integer, args[1].integer));
    } else {
      CheckFailed(__FILE__, __LINE__, compiler::InfoOf(op).name, "not an operation of integers");
    }
    return CastCell(result, compiler::kInt64, dtype);
  }
  CheckFailed(__FILE__, __LINE__, compiler::InfoOf(op).name, "not an operation of reals");
}

}  // namespace tensord::testing
