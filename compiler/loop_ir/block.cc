// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/block.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"

namespace tensord::compiler {
namespace {

DType ResultOf(Op op, const std::vector<Value>& args) {
  switch (InfoOf(op).result) {
    case OpResult::Same:
      return args[0].dtype;
    case OpResult::Bool:
      return kBool;
    case OpResult::Second:
      return args[1].dtype;
    case OpResult::Float32:
      return kFloat32;
  }
  return args[0].dtype;
}

}  // namespace

bool MayScan(Op op) {
  switch (op) {
    case Op::k_add:
    case Op::k_mul:
    case Op::k_minimum:
    case Op::k_maximum:
    case Op::k_logaddexp:
      return true;
    default:
      return false;
  }
}

InstKey KeyOf(const Inst& inst) {
  return {static_cast<int>(inst.kind),
          static_cast<int>(inst.op),
          static_cast<int>(inst.dtype),
          static_cast<int>(inst.storage),
          inst.args,
          inst.index,
          inst.buffer,
          std::bit_cast<uint64_t>(inst.number),
          inst.integer,
          inst.guard,
          static_cast<int>(inst.check),
          inst.rule.wraps,
          inst.rule.is_checked,
          inst.rule.dimension,
          inst.in_order};
}

Value Recorder::Append(Inst inst) {
  auto [it, is_new] = known_.emplace(KeyOf(inst), static_cast<int>(block_->insts.size()));
  const DType dtype = inst.dtype;
  if (is_new) block_->insts.push_back(std::move(inst));
  return {it->second, dtype};
}

namespace {

// Towards zero. What does not fit into 64 bits becomes the nearest that does, and NaN 0: eager
// refuses to write such a number, and so does the client, but no graph from outside may decide what
// C++ leaves open.
int64_t WholePart(double value) {
  constexpr double kEnd = 0x1p63;
  if (std::isnan(value)) return 0;
  if (value >= kEnd) return std::numeric_limits<int64_t>::max();
  return value < -kEnd ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(value);
}

}  // namespace

Value Recorder::Constant(double value, DType dtype) {
  if (IsComplex(dtype)) return Constant(part_ == 0 ? value : 0, PartType(dtype));
  if (!IsFloating(dtype)) return ConstantInt(WholePart(value), dtype);
  Value result =
      Append({.kind = InstKind::kConstant, .dtype = ComputeType(dtype), .number = value});
  return ComputeType(dtype) != dtype ? Cast(result, dtype) : result;
}

Value Recorder::ConstantInt(int64_t value, DType dtype) {
  if (IsFloating(dtype) || IsComplex(dtype)) return Constant(static_cast<double>(value), dtype);
  return Append({.kind = InstKind::kConstant, .dtype = dtype, .integer = value});
}

Value Recorder::Index(const Expr& expr, DType dtype) {
  if (auto constant = expr.AsConstant()) return ConstantInt(*constant, dtype);
  Value value = Append({.kind = InstKind::kIndex, .dtype = kInt64, .index = expr});
  return dtype == kInt64 ? value : Cast(value, dtype);
}

Value Recorder::Load(BufferId buffer, DType storage, const Expr& index) {
  return Append({.kind = InstKind::kLoad,
                 .dtype = ComputeType(storage),
                 .storage = storage,
                 .index = index,
                 .buffer = buffer,
                 .guard = guard_});
}

namespace {

// The reciprocal of a power of two, where it is exact and normal in float32: a product with it is
// the same number as the quotient.
std::optional<double> ExactReciprocal(const Inst& inst) {
  if (inst.kind != InstKind::kConstant || !IsFloating(inst.dtype)) return std::nullopt;
  int exponent = 0;
  if (std::abs(std::frexp(inst.number, &exponent)) != 0.5 || std::abs(exponent) > 100) {
    return std::nullopt;
  }
  return 1 / inst.number;
}

// The operand, where `inst` is the hyperbolic tangent of one.
int TanhOperand(const Inst& inst) {
  return inst.kind == InstKind::kCompute && inst.op == Op::k_tanh ? inst.args[0] : -1;
}
bool IsOne(const Inst& inst) {
  return inst.kind == InstKind::kConstant && IsFloating(inst.dtype) && inst.number == 1;
}

}  // namespace

// 1 + tanh(u) = 2 s and 1 - tanh(u)^2 = 4 s (1 - s) with s = 1 / (1 + exp(-2 u)): cheaper, and
// small results keep their digits. Both are in every tanh form of GELU.
std::optional<Value> Recorder::SimplifyTanh(Op op, Value a, Value b) {
  if (op != Op::k_add && op != Op::k_sub) return std::nullopt;
  if (op == Op::k_add && IsOne(block_->insts[b.id])) std::swap(a, b);
  if (!IsOne(block_->insts[a.id])) return std::nullopt;
  const Inst other = block_->insts[b.id];
  int operand = -1;
  if (op == Op::k_add) {
    operand = TanhOperand(other);
  } else if (other.kind == InstKind::kCompute && other.op == Op::k_mul &&
             other.args[0] == other.args[1]) {
    operand = TanhOperand(block_->insts[other.args[0]]);
  }
  if (operand < 0) return std::nullopt;
  const DType dtype = b.dtype;
  const Value twice = Mul(Constant(2, dtype), Value{operand, dtype});
  const Value s = Compute(Op::k_sigmoid, {twice});
  if (op == Op::k_add) return Mul(Constant(2, dtype), s);
  const Value rest = Compute(Op::k_sub, {Constant(1, dtype), s});
  return Mul(Mul(Constant(4, dtype), s), rest);
}

// One index for the sum or the difference of two loops, which needs no 64 bits then.
std::optional<Value> Recorder::SimplifyOfScores(Op op, const std::vector<Value>& args) {
  if (args.size() != 2) return std::nullopt;
  const Inst &a = block_->insts[args[0].id], &b = block_->insts[args[1].id];
  const auto is_loop = [](const Inst& inst) {
    const sym::Atom* atom = inst.kind == InstKind::kIndex ? inst.index.AsAtom() : nullptr;
    return atom != nullptr && atom->kind == sym::AtomKind::kLoop;
  };
  if ((op != Op::k_sub && op != Op::k_add) || !is_loop(a) || !is_loop(b)) return std::nullopt;
  return Index(op == Op::k_sub ? a.index - b.index : a.index + b.index);
}

Value Recorder::Compute(Op op, std::vector<Value> args) {
  TENSORD_CHECK(static_cast<int>(args.size()) == InfoOf(op).arity, InfoOf(op).name);
  if (precision_ == kOfScores) {
    if (const auto simple = SimplifyOfScores(op, args)) return *simple;
  }
  if (op == Op::k_div) {
    if (const auto reciprocal = ExactReciprocal(block_->insts[args[1].id])) {
      return Compute(Op::k_mul, {args[0], Constant(*reciprocal, args[1].dtype)});
    }
  }
  if (args.size() == 2 && precision_ == kAll) {
    if (const auto simple = SimplifyTanh(op, args[0], args[1])) return *simple;
  }
  const DType dtype = ResultOf(op, args);
  std::vector<int> ids;
  for (const Value& arg : args) ids.push_back(arg.id);
  return Append({.kind = InstKind::kCompute, .op = op, .dtype = dtype, .args = std::move(ids)});
}

Value Recorder::Cast(Value value, DType to) {
  to = PartType(to);
  const DType compute = ComputeType(to);
  if (value.dtype != compute) {
    value = Append({.kind = InstKind::kCast, .dtype = compute, .args = {value.id}});
  }
  if (compute == to) return value;
  // A value that was just loaded from this type is already exact.
  const Inst& made_by = block_->insts[value.id];
  if (made_by.kind == InstKind::kLoad && made_by.storage == to) return value;
  return Stored(value, to);
}

Value Recorder::Stored(Value value, DType storage) {
  const DType compute = ComputeType(storage);
  value = Cast(value, compute);
  if (compute == storage) return value;
  const Inst& made_by = block_->insts[value.id];
  if (made_by.kind == InstKind::kRound && made_by.storage == storage) return value;
  return Append(
      {.kind = InstKind::kRound, .dtype = compute, .storage = storage, .args = {value.id}});
}

Value Recorder::Bitcast(Value value, DType to) {
  if (value.dtype == to) return value;
  return Append({.kind = InstKind::kBitcast, .dtype = to, .args = {value.id}});
}

Value Recorder::Nonzero(Value divisor) {
  const Inst& inst = block_->insts[divisor.id];
  const bool is_constant = inst.kind == InstKind::kConstant;
  if (is_constant ? inst.integer != 0
                  : inst.kind == InstKind::kIndex && sym::ProvablyPositive(inst.index)) {
    return divisor;
  }
  return Checked(DataCheck::kDivisor, divisor);
}

Value Recorder::Checked(DataCheck check, Value value) {
  return Append({.kind = InstKind::kCheck,
                 .dtype = value.dtype,
                 .args = {value.id},
                 .guard = guard_,
                 .check = check});
}

Value Recorder::Scan(Op op, Value value, bool in_order) {
  TENSORD_CHECK(MayScan(op), InfoOf(op).name);
  return Append({.kind = InstKind::kScan,
                 .op = op,
                 .dtype = value.dtype,
                 .args = {value.id},
                 .in_order = in_order});
}

Expr Recorder::Indirect(Value index, const Expr& size, const IndexRule& rule,
                        std::optional<Value> when) {
  Value i = Cast(index, kInt64);
  const Inst& inst = block_->insts[i.id];
  if (inst.kind == InstKind::kIndex && sym::ProvablyNonNegative(inst.index) &&
      sym::ProvablyLess(inst.index, size)) {
    return inst.index;  // an index that is known needs no check
  }
  const Value zero = ConstantInt(0, kInt64), given = i;
  if (rule.wraps) {
    i = Where(Compute(Op::k_lt, {i, zero}), Add(i, Index(size)), i);
  }
  const Value last = Index(size - 1);
  i = Compute(Op::k_minimum, {Compute(Op::k_maximum, {i, zero}), last});
  Inst indirect{.kind = InstKind::kIndirect, .dtype = kInt64, .args = {i.id}, .index = size};
  if (rule.is_checked) {
    indirect.args.push_back(given.id);
    indirect.guard = when ? GuardWith(*when).id : guard_;
    indirect.rule = rule;
  }
  const int before = static_cast<int>(block_->insts.size());
  const Value made = Append(std::move(indirect));
  int& symbol = block_->insts[made.id].symbol;
  if (made.id == before) symbol = next_symbol_++;
  return Expr::Indirect(symbol, size);
}

Value Recorder::GuardWith(Value condition) {
  if (guard_ < 0) return condition;
  return Compute(Op::k_logical_and, {Value{guard_, kBool}, condition});
}

Value Recorder::Masked(Value mask, const std::function<Value()>& body, Value other) {
  const int outer = guard_;
  guard_ = GuardWith(mask).id;
  const Value inside = body();
  guard_ = outer;
  return Where(mask, inside, other);
}

std::string ToString(const Block& block) {
  std::string text;
  for (size_t i = 0; i < block.insts.size(); ++i) {
    const Inst& inst = block.insts[i];
    absl::StrAppend(&text, "%", i, ": ", DTypeName(inst.dtype), " = ");
    std::string args = absl::StrJoin(
        inst.args, ", ", [](std::string* out, int id) { absl::StrAppend(out, "%", id); });
    switch (inst.kind) {
      case InstKind::kConstant:
        absl::StrAppend(&text, "constant ",
                        IsFloating(inst.dtype) ? absl::StrFormat("%.9g", inst.number)
                                               : absl::StrCat(inst.integer));
        break;
      case InstKind::kIndex:
        absl::StrAppend(&text, "index ", sym::ToString(inst.index));
        break;
      case InstKind::kLoad:
        absl::StrAppend(&text, "load b", inst.buffer, "[", sym::ToString(inst.index), "]");
        break;
      case InstKind::kCompute:
        absl::StrAppend(&text, InfoOf(inst.op).name, " ", args);
        break;
      case InstKind::kCast:
        absl::StrAppend(&text, "cast ", args);
        break;
      case InstKind::kBitcast:
        absl::StrAppend(&text, "bitcast ", args);
        break;
      case InstKind::kCheck:
        absl::StrAppend(&text, InfoOf(inst.check).name, " ", args);
        break;
      case InstKind::kRound:
        absl::StrAppend(&text, "round ", args, " ", DTypeName(inst.storage));
        break;
      case InstKind::kScan:
        absl::StrAppend(&text, "scan ", InfoOf(inst.op).name, " ", args,
                        inst.in_order ? " in order" : "");
        break;
      case InstKind::kIndirect:
        absl::StrAppend(&text, "indirect x", inst.symbol, " = ", args, " < ",
                        sym::ToString(inst.index));
        if (inst.rule.is_checked) {
          absl::StrAppend(&text, inst.rule.wraps ? ", checked, wraps" : ", checked");
        }
        break;
    }
    if (inst.guard >= 0) absl::StrAppend(&text, " if %", inst.guard);
    text += '\n';
  }
  return text;
}

}  // namespace tensord::compiler
