// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/expr.h"

#include <algorithm>
#include <string>

namespace tensord::runtime {
namespace {

using Op = ExprInstruction::Op;

TensordError Emit(const v1::SymExpr& expr, uint32_t num_symbols, uint32_t depth,
                  std::vector<ExprInstruction>* code) {
  if (depth > kMaxExprDepth) return Fail(TENSORD_CORRUPT, "an expression is nested too deeply");
  switch (expr.kind_case()) {
    case v1::SymExpr::kConstant:
      code->push_back({Op::kConstant, expr.constant()});
      return TENSORD_OK;
    case v1::SymExpr::kSymbol:
      if (expr.symbol() >= num_symbols) {
        return Fail(TENSORD_CORRUPT, "an expression names symbol " + std::to_string(expr.symbol()) +
                                         " of " + std::to_string(num_symbols));
      }
      code->push_back({Op::kSymbol, expr.symbol()});
      return TENSORD_OK;
    case v1::SymExpr::kOp:
      break;
    case v1::SymExpr::KIND_NOT_SET:
      return Fail(TENSORD_CORRUPT, "an expression is empty");
  }
  struct Row {
    v1::SymOp::Kind kind;
    Op op;
    bool binary;
  };
  static constexpr Row kRows[] = {
      {v1::SymOp::ADD, Op::kAdd, false},           {v1::SymOp::MUL, Op::kMul, false},
      {v1::SymOp::FLOOR_DIV, Op::kFloorDiv, true}, {v1::SymOp::MOD, Op::kMod, true},
      {v1::SymOp::MIN, Op::kMin, false},           {v1::SymOp::MAX, Op::kMax, false},
  };
  const v1::SymOp& op = expr.op();
  const auto* row = std::ranges::find(kRows, op.kind(), &Row::kind);
  if (row == std::end(kRows) || op.args_size() == 0 || (row->binary && op.args_size() != 2)) {
    return Fail(TENSORD_CORRUPT, "an expression has an unknown operation or a wrong arity");
  }
  for (int i = 0; i < op.args_size(); ++i) {
    TENSORD_TRY(Emit(op.args(i), num_symbols, depth + 1, code));
    if (i > 0) code->push_back({row->op, 0});
  }
  return TENSORD_OK;
}

bool Apply(Op op, int64_t left, int64_t right, int64_t* result) {
  switch (op) {
    case Op::kAdd:
      return !__builtin_add_overflow(left, right, result);
    case Op::kMul:
      return !__builtin_mul_overflow(left, right, result);
    case Op::kMin:
      *result = std::min(left, right);
      return true;
    case Op::kMax:
      *result = std::max(left, right);
      return true;
    case Op::kFloorDiv:
    case Op::kMod: {
      if (right == 0 || (left == INT64_MIN && right == -1)) return false;
      int64_t quotient = left / right, remainder = left % right;
      if (remainder != 0 && ((remainder < 0) != (right < 0))) {
        --quotient;
        remainder += right;
      }
      *result = op == Op::kMod ? remainder : quotient;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

TensordError EmitExpr(const v1::SymExpr& expr, uint32_t num_symbols,
                      std::vector<ExprInstruction>* code) {
  return Emit(expr, num_symbols, 0, code);
}

bool RunExpr(std::span<const ExprInstruction> code, const int64_t* symbols, int64_t* result) {
  int64_t stack[kExprStack];
  size_t top = 0;
  for (const ExprInstruction& instruction : code) {
    if (instruction.op == Op::kConstant) {
      stack[top++] = instruction.operand;
    } else if (instruction.op == Op::kSymbol) {
      stack[top++] = symbols[instruction.operand];
    } else {
      --top;
      if (!Apply(instruction.op, stack[top - 1], stack[top], &stack[top - 1])) return false;
    }
  }
  *result = stack[0];
  return true;
}

Slot ExprTable::AddConstant(int64_t value) {
  values_.push_back(value);
  return static_cast<Slot>(values_.size() - 1);
}

TensordError ExprTable::Add(const v1::SymExpr& expr, Slot* slot) {
  if (expr.kind_case() == v1::SymExpr::kConstant) {
    *slot = AddConstant(expr.constant());
    return TENSORD_OK;
  }
  std::vector<ExprInstruction> code;
  TENSORD_TRY(EmitExpr(expr, num_symbols_, &code));
  const bool constant =
      std::ranges::none_of(code, [](const ExprInstruction& i) { return i.op == Op::kSymbol; });
  if (constant) {
    int64_t value = 0;
    if (!RunExpr(code, nullptr, &value)) {
      return Fail(TENSORD_CORRUPT, "a constant expression overflows or divides by zero");
    }
    *slot = AddConstant(value);
    return TENSORD_OK;
  }
  *slot = AddConstant(0);
  const auto begin = static_cast<uint32_t>(code_.size());
  code_.insert(code_.end(), code.begin(), code.end());
  dynamic_.push_back({*slot, begin, static_cast<uint32_t>(code_.size())});
  return TENSORD_OK;
}

bool ExprTable::IsConstant(Slot slot) const {
  if (slot < num_symbols_) return false;
  auto it = std::ranges::lower_bound(dynamic_, slot, {}, &Dynamic::slot);
  return it == dynamic_.end() || it->slot != slot;
}

bool ExprTable::Evaluate(int64_t* values) const {
  const std::span<const ExprInstruction> code(code_);
  for (const Dynamic& entry : dynamic_) {
    const auto part = code.subspan(entry.begin, entry.end - entry.begin);
    // A bare symbol, by far the most frequent.
    if (part.size() == 1) {
      values[entry.slot] = values[part[0].operand];
    } else if (!RunExpr(part, values, &values[entry.slot])) {
      return false;
    }
  }
  return true;
}

}  // namespace tensord::runtime
