// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/scalar_ops.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "tests/unit/testing/scalar_reference.h"

namespace tensord::testing {
namespace {

using compiler::Op;

Cell Real(double x) { return {.real = x}; }
Cell Integer(int64_t x) { return {.integer = x}; }

template <class T>
Cell CellOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return Real(x);
  } else {
    return Integer(static_cast<int64_t>(x));
  }
}

template <class T>
T ValueOf(const Cell& cell) {
  if constexpr (std::is_floating_point_v<T>) {
    return cell.real;
  } else {
    return static_cast<T>(cell.integer);
  }
}

// The reference of ops.def on operands of one type; nothing where the operation does not take it.
template <class T>
std::optional<Cell> Reference(Op op, const std::vector<Cell>& args) {
  const T a = ValueOf<T>(args[0]), b = args.size() > 1 ? ValueOf<T>(args[1]) : T(),
          c = args.size() > 2 ? ValueOf<T>(args[2]) : T();
  switch (op) {
#define TENSORD_OP(name, arity, types, result, cost, reference, domain, tolerance) \
  case Op::k_##name:                                                               \
    if constexpr (Takes<T>(Types::types)) {                                        \
      TENSORD_CHECK(std::is_floating_point_v<T> || !domain.divides || b != T(0),   \
                    "integer division by zero");                                   \
      return CellOf(reference);                                                    \
    }                                                                              \
    break;
#include "compiler/loop_ir/ops.def"
  }
  return std::nullopt;
}

}  // namespace

Cell CastCell(Cell value, DType from, DType to) {
  const bool was_real = compiler::IsFloating(from);
  if (compiler::IsFloating(to)) {
    return Real(RoundTo(was_real ? value.real : static_cast<double>(value.integer), to));
  }
  if (to == compiler::kBool) return Integer(was_real ? value.real != 0 : value.integer != 0);
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
  if (op == Op::k_where) return args[0].integer != 0 ? args[1] : args[2];
  const bool is_real = compiler::IsFloating(dtype);
  const std::optional<Cell> result = is_real                    ? Reference<double>(op, args)
                                     : dtype == compiler::kBool ? Reference<bool>(op, args)
                                                                : Reference<int64_t>(op, args);
  TENSORD_CHECK(result.has_value(), std::string(compiler::InfoOf(op).name) + " does not take " +
                                        compiler::DTypeName(dtype));
  const bool wraps = !is_real && compiler::InfoOf(op).result == compiler::OpResult::Same;
  return wraps ? CastCell(*result, compiler::kInt64, dtype) : *result;
}

}  // namespace tensord::testing
