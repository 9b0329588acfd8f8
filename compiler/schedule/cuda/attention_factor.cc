// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/attention_factor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace tensord::compiler {
namespace {

bool IsCompute(const Inst& inst, Op op) { return inst.kind == InstKind::kCompute && inst.op == op; }

bool IsUnseen(const Inst& inst) {
  return inst.kind == InstKind::kConstant &&
         inst.number == -std::numeric_limits<double>::infinity();
}

std::optional<float> PositiveNumber(const Inst& inst) {
  const float number = static_cast<float>(inst.number);
  if (inst.kind != InstKind::kConstant || !std::isnormal(number) || number < 0) return {};
  return number;
}

class Taker {
 public:
  std::optional<float> factor() const { return factor_; }

  // Puts in the place of a value, which ends a function, what is multiplied. False: there is no
  // such thing, and the function is useless.
  bool Take(std::vector<Inst>& insts, int* value) {
    Inst& inst = insts[*value];
    if (IsUnseen(inst)) return true;
    if (IsCompute(inst, Op::k_where)) {
      return Uses(insts, *value) <= 1 && Take(insts, &inst.args[1]) && Take(insts, &inst.args[2]);
    }
    if (!IsCompute(inst, Op::k_mul) || inst.dtype != kFloat32) return false;
    for (int side : {0, 1}) {
      const std::optional<float> number = PositiveNumber(insts[inst.args[side]]);
      if (!number) continue;
      if (factor_.value_or(*number) != *number) return false;
      factor_ = number;
      *value = inst.args[1 - side];
      return true;
    }
    return false;
  }

 private:
  static int64_t Uses(const std::vector<Inst>& insts, int value) {
    int64_t uses = 0;
    for (const Inst& inst : insts) uses += std::ranges::count(inst.args, value);
    return uses;
  }

  std::optional<float> factor_;
};

}  // namespace

float TakeFactor(std::vector<LoopOp>* functions) {
  std::vector<LoopOp> without = *functions;
  Taker taker;
  for (LoopOp& function : without) {
    if (!taker.Take(function.block.insts, &function.stores[0].value)) return 1;
  }
  if (!taker.factor()) return 1;
  *functions = std::move(without);
  return *taker.factor();
}

}  // namespace tensord::compiler
