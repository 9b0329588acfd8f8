// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/body.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"

namespace tensord::compiler {

std::string LoopName(int loop) { return absl::StrCat("i", loop); }
ir::Value LoopVar(int loop) { return ir::IndexVar(LoopName(loop)); }
ir::Value Width() { return ir::IntVar("W"); }
ir::Value Left() { return ir::IndexVar("left"); }
ir::Value FirstLanes() { return ir::CallOf("mask_first", {Width()}, {Left()}); }

BodyLowering::BodyLowering(const Program& program, const Nest& nest, KernelInterface* interface)
    : program_(program), nest_(nest), interface_(interface), builder_(vector_level() + 1) {}

void BodyLowering::BeginPass(PassPart part) {
  tail_ = part.tail;
  for (int level = part.again ? vector_level() : 1; level <= vector_level(); ++level) {
    if (level > 0) builder_.Forget(level);
  }
  memo_.clear();
  indirect_.clear();
  pass_values_.clear();
}

void BodyLowering::SetMember(const NestMember* member) { member_ = member; }

void BodyLowering::ForgetUnit() {
  builder_.Forget(0);
  row_values_.clear();
  streams_.clear();
}

ir::Value BodyLowering::Use(const Lowered& value, int level) const {
  const bool vector = level == vector_level() && level > 0 && member_->has_inner;
  if (value.IsNumber()) {
    return ir::CallOf("broadcast", {vector ? Width() : ir::Value(1)}, {value.value});
  }
  if (vector && value.level < vector_level()) {
    return ir::CallOf("splat", {Width()}, {value.value});
  }
  return value.value;
}

Lowered BodyLowering::AsVector(Lowered value) {
  if (value.level < vector_level() || value.IsNumber()) {
    value.value = Define(vector_level(), Use(value, vector_level()));
    value.level = vector_level();
  }
  return value;
}

// ---- Instructions

Lowered BodyLowering::Lower(int id) {
  if (auto it = memo_.find({member_, id}); it != memo_.end()) return it->second;
  Lowered value = LowerUncached(id);
  memo_[{member_, id}] = value;
  return value;
}

Lowered BodyLowering::LowerUncached(int id) {
  const Inst& inst = InstOf(id);
  Lowered value;
  switch (inst.kind) {
    case InstKind::kConstant:
      value.value = ir::NumberOf(inst.dtype, inst.number, inst.integer);
      return value;
    case InstKind::kLoad:
      return LowerLoad(inst);
    case InstKind::kIndex: {
      value.level = LevelOf(inst.index);
      const bool vector = value.level == vector_level() && vector_level() > 0;
      value.value = vector
                        ? Vector(inst.index)
                        : Define(value.level,
                                 ir::CallOf("broadcast", {ir::Value(1)},
                                            {ir::ConvertTo(ir::kInt64Type, Scalar(inst.index))}));
      return value;
    }
    case InstKind::kIndirect:
      value = LowerIndirect(inst);
      indirect_[{member_, inst.symbol}] = value;
      return value;
    case InstKind::kCheck:
      value = LowerCheck(inst, Lower(inst.args[0]), [&](const ir::Value& v, const ir::Value& on) {
        return CheckData(inst.check, v, on);
      });
      return value;
    case InstKind::kScan:
      return LowerScan(id);
    default:
      return LowerArithmetic(inst);
  }
}

Lowered BodyLowering::LowerScan(int id) {
  const Lowered value = Lower(InstOf(id).args[0]);
  if (vector_level() == 0) return value;  // of one element
  const int level = vector_level();
  return {.value = ScanVector(id, Use(value, level)), .level = level};
}

Lowered BodyLowering::LowerIndirect(const Inst& inst) {
  Lowered value = LowerOperand(inst, inst.args[inst.rule.is_checked ? 1 : 0]);
  if (value.IsNumber()) {
    value.value = Define(0, ir::CallOf("broadcast", {ir::Value(1)}, {value.value}));
  }
  if (!inst.rule.is_checked) return value;
  return LowerCheck(inst, value, [&](const ir::Value& index, const ir::Value& on) {
    return CheckIndex(inst.rule, index, inst.index, on);
  });
}

Lowered BodyLowering::LowerCheck(const Inst& inst, Lowered value, const Check& check) {
  Lowered guard;
  if (inst.guard >= 0) guard = Lower(inst.guard);
  const int level = std::max(value.level, guard.level);
  const bool is_vector = level == vector_level() && level > 0 && member_->has_inner;
  // Lanes behind the end of a row hold nothing.
  const ir::Value on = guard.value ? Use(guard, level) : ir::Value();
  value.value = Define(level, check(Use(value, level), is_vector ? LanesInRange(on) : on));
  value.level = level;
  return value;
}

Lowered BodyLowering::LowerArithmetic(const Inst& inst) {
  Lowered value;
  if (inst.kind == InstKind::kCompute && vector_level() > 0 && member_->has_inner) {
    if (const ir::Value special = SpecialCompute(inst)) {
      value.level = vector_level();
      value.value = Define(value.level, special);
      return value;
    }
  }
  // Every type has 0 and 1.
  if (inst.kind == InstKind::kRound && InstOf(inst.args[0]).kind == InstKind::kCast &&
      InstOf(InstOf(inst.args[0]).args[0]).dtype == kBool) {
    return Lower(inst.args[0]);
  }
  std::vector<Lowered> args;
  for (int arg : inst.args) {
    args.push_back(LowerOperand(inst, arg));
    value.level = std::max(value.level, args.back().level);
  }
  std::vector<ir::Value> operands;
  for (const Lowered& arg : args) operands.push_back(Use(arg, value.level));
  const ir::Type result = ir::ScalarType(ComputeType(inst.dtype));
  ir::Value call;
  switch (inst.kind) {
    case InstKind::kCompute:
      call = ir::CallOf(ComputeFunction(inst), std::move(operands));
      break;
    case InstKind::kCast:
      call = ir::CallOf("cast", {result}, std::move(operands));
      break;
    case InstKind::kBitcast:
      call = ir::CallOf("bitcast", {result}, std::move(operands));
      break;
    case InstKind::kRound:
      call = ir::CallOf("round_to", {ir::ScalarType(inst.storage)}, std::move(operands));
      break;
    default:
      TENSORD_CHECK(false, "unreachable");
  }
  value.value = Define(value.level, call);
  return value;
}

// The number of a random operator differs from layer to layer; as an argument it leaves their
// kernels equal.
bool BodyLowering::IsStream(const Inst& inst, int arg) const {
  return inst.kind == InstKind::kCompute &&
         (inst.op == Op::k_philox_uniform || inst.op == Op::k_philox_normal) &&
         arg == inst.args[1] && InstOf(arg).kind == InstKind::kConstant;
}

Lowered BodyLowering::LowerStream(int arg) {
  const auto key = std::make_pair(member_, arg);
  if (auto it = streams_.find(key); it != streams_.end()) return it->second;
  const ir::Value stream = Argument(Expr(InstOf(arg).integer));
  Lowered value;
  value.value =
      Define(0, ir::CallOf("broadcast", {ir::Value(1)}, {ir::ConvertTo(ir::kInt64Type, stream)}));
  streams_[key] = value;
  return value;
}

ir::Block BodyLowering::Declarations() const {
  // By position: the buffers' own numbers differ between nests that are alike.
  std::map<int, ir::Statement> pointers;
  for (const auto& [id, written] : used_buffers_) {
    const int position = interface_->Buffer(id);
    pointers.emplace(position,
                     interface_->BindPointer(position, program_.buffers[id].dtype, written));
  }
  ir::Block block;
  for (const auto& [position, pointer] : pointers) block.push_back(pointer);
  for (int position : used_integers_) block.push_back(interface_->BindInteger(position));
  ir::Append(&block, arrays_);
  return block;
}

}  // namespace tensord::compiler
