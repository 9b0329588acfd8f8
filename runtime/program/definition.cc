// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/definition.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tensord::runtime {
namespace {

constexpr double kEnd = 9223372036854775808.0;  // 2^63, the first that is no int64_t

}  // namespace

TensordError Definition::Emit(const v1::RealExpr& real, uint32_t num_symbols, uint32_t depth) {
  if (depth > kMaxExprDepth) return Fail(TENSORD_CORRUPT, "a definition is nested too deeply");
  switch (real.kind_case()) {
    case v1::RealExpr::kConstant:
      code_.push_back({.op = Op::kConstant, .constant = real.constant()});
      return TENSORD_OK;
    case v1::RealExpr::kInteger: {
      const auto begin = static_cast<uint32_t>(integers_.size());
      TENSORD_TRY(EmitExpr(real.integer(), num_symbols, &integers_));
      code_.push_back(
          {.op = Op::kInteger, .begin = begin, .end = static_cast<uint32_t>(integers_.size())});
      return TENSORD_OK;
    }
    case v1::RealExpr::kOp:
      break;
    case v1::RealExpr::KIND_NOT_SET:
      return Fail(TENSORD_CORRUPT, "a definition is empty");
  }
  struct Row {
    v1::RealOp::Kind kind;
    Op op;
    int arity;  // 0: any but none
  };
  static constexpr Row kRows[] = {
      {v1::RealOp::ADD, Op::kAdd, 0},   {v1::RealOp::MUL, Op::kMul, 0},
      {v1::RealOp::DIV, Op::kDiv, 2},   {v1::RealOp::POW, Op::kPow, 2},
      {v1::RealOp::SQRT, Op::kSqrt, 1},
  };
  const v1::RealOp& op = real.op();
  const auto* row = std::ranges::find(kRows, op.kind(), &Row::kind);
  if (row == std::end(kRows) || op.args_size() == 0 ||
      (row->arity != 0 && op.args_size() != row->arity)) {
    return Fail(TENSORD_CORRUPT, "a definition has an unknown operation or a wrong arity");
  }
  for (int i = 0; i < op.args_size(); ++i) {
    TENSORD_TRY(Emit(op.args(i), num_symbols, depth + 1));
    if (i > 0 || row->arity == 1) code_.push_back({.op = row->op});
  }
  return TENSORD_OK;
}

TensordError Definition::Make(const v1::Definition& proto, uint32_t num_symbols, Definition* made) {
  *made = {};
  made->rounding_ = proto.rounding();
  if (proto.rounding() < v1::Definition::TRUNC || proto.rounding() > v1::Definition::NEAREST) {
    return Fail(TENSORD_CORRUPT, "a definition rounds in an unknown way");
  }
  return made->Emit(proto.real(), num_symbols, 0);
}

bool Definition::Evaluate(const int64_t* symbols, int64_t* result) const {
  const std::span<const ExprInstruction> integers(integers_);
  double stack[kExprStack];
  size_t top = 0;
  for (const Instruction& instruction : code_) {
    switch (instruction.op) {
      case Op::kConstant:
        stack[top++] = instruction.constant;
        continue;
      case Op::kInteger: {
        int64_t value = 0;
        const uint32_t length = instruction.end - instruction.begin;
        if (!RunExpr(integers.subspan(instruction.begin, length), symbols, &value)) return false;
        stack[top++] = static_cast<double>(value);
        continue;
      }
      case Op::kSqrt:
        stack[top - 1] = std::sqrt(stack[top - 1]);
        continue;
      default:
        break;
    }
    const double right = stack[--top];
    double& left = stack[top - 1];
    switch (instruction.op) {
      case Op::kAdd:
        left += right;
        break;
      case Op::kMul:
        left *= right;
        break;
      case Op::kDiv:
        left /= right;
        break;
      default:
        left = std::pow(left, right);
        break;
    }
  }
  double rounded = stack[0];
  switch (rounding_) {
    case v1::Definition::FLOOR:
      rounded = std::floor(rounded);
      break;
    case v1::Definition::CEIL:
      rounded = std::ceil(rounded);
      break;
    case v1::Definition::NEAREST:
      rounded = std::nearbyint(rounded);  // halves to even, in the mode that programs run in
      break;
    default:
      rounded = std::trunc(rounded);
      break;
  }
  if (!(rounded >= -kEnd && rounded < kEnd)) return false;  // NaN too
  *result = static_cast<int64_t>(rounded);
  return true;
}

}  // namespace tensord::runtime
