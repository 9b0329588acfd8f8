// SPDX-License-Identifier: Apache-2.0
// Computations of CudaBody that have a better way than the operation on vectors.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "compiler/codegen/cuda/body.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {

bool CudaBody::IsRun(const Expr& e) const {
  return !plan_.is_interleaved() && !plan_.is_peeled() &&
         VectorAlignment(e, VectorLoop()) >= plan_.width;
}

std::span<const CudaBody::Selection> CudaBody::Selections() {
  static constexpr Selection kSelections[] = {
      {Op::k_lt, "random comparison", &CudaBody::RandomComparison},
      {Op::k_lt, "common comparison", &CudaBody::CommonComparison},
      {Op::k_ge, "random comparison", &CudaBody::RandomComparison},
      {Op::k_ge, "common comparison", &CudaBody::CommonComparison},
      {Op::k_eq, "equal index", &CudaBody::EqualIndex},
      {Op::k_sub, "subtraction at an index", &CudaBody::SubtractAtIndex},
      {Op::k_philox_uniform, "random run", &CudaBody::RandomRun},
      {Op::k_philox_normal, "random run", &CudaBody::RandomRun},
  };
  return kSelections;
}

ir::Value CudaBody::SpecialCompute(const Inst& inst) {
  for (const Selection& selection : Selections()) {
    if (selection.op != inst.op) continue;
    if (ir::Value value = (this->*selection.select)(inst)) return value;
  }
  return {};
}

ir::Value CudaBody::CommonComparison(const Inst& inst) {
  const Inst &index = InstOf(inst.args[0]), &zero = InstOf(inst.args[1]);
  const bool with_zero =
      zero.kind == InstKind::kConstant && zero.dtype == kInt64 && zero.integer == 0;
  if (index.kind != InstKind::kIndex || !with_zero || LevelOf(index.index) != vector_level() ||
      !IsRun(index.index)) {
    return {};
  }
  const ir::Value first = Scalar(index.index);
  return ir::CallOf("broadcast", {Width()}, {inst.op == Op::k_lt ? first < 0 : first >= 0});
}

std::optional<std::pair<ir::Value, ir::Value>> CudaBody::Distance(const Inst& equal) {
  for (const int which : {0, 1}) {
    const Inst& index = InstOf(equal.args[which]);
    if (index.kind != InstKind::kIndex || index.dtype != kInt64) continue;
    const auto step = sym::LinearCoefficient(index.index, VectorLoop());
    if (!step || !step->Is(1) || sym::ContainsKind(index.index, sym::AtomKind::kIndirect)) continue;
    const Lowered other = LowerOperand(equal, equal.args[1 - which]);
    if (other.level >= vector_level()) continue;
    const ir::Value at = ir::CallOf("get", {Use(other, 0), 0});
    return std::pair(at - ir::ConvertTo(ir::kInt64Type, Scalar(index.index)),
                     plan_.is_interleaved() ? GroupSize() : ir::Value(1));
  }
  return std::nullopt;
}

ir::Value CudaBody::EqualIndex(const Inst& inst) {
  const auto distance = Distance(inst);
  if (!distance) return {};
  return ir::CallOf("equal_lane", {Width()}, {distance->first, distance->second});
}

ir::Value CudaBody::SubtractAtIndex(const Inst& inst) {
  const Inst& choice = InstOf(inst.args[1]);
  if (choice.kind != InstKind::kCompute || choice.op != Op::k_where) return {};
  const Inst &equal = InstOf(choice.args[0]), &none = InstOf(choice.args[2]);
  if (equal.kind != InstKind::kCompute || equal.op != Op::k_eq ||
      none.kind != InstKind::kConstant || !IsFloating(none.dtype) || none.number != 0) {
    return {};
  }
  const Lowered amount = LowerOperand(choice, choice.args[1]);
  if (amount.level >= vector_level()) return {};
  const auto distance = Distance(equal);
  if (!distance) return {};
  const ir::Value from = Use(LowerOperand(inst, inst.args[0]), vector_level());
  return ir::CallOf("sub_at", {from, distance->first, distance->second, Use(amount, 0)});
}

std::vector<ir::Value> CudaBody::RunArguments(const Inst& inst) {
  const Inst& element = InstOf(inst.args[2]);
  if (element.kind != InstKind::kIndex || LevelOf(element.index) != vector_level() ||
      !IsRun(element.index)) {
    return {};
  }
  const Lowered seed = LowerOperand(inst, inst.args[0]);
  const Lowered stream = LowerOperand(inst, inst.args[1]);
  if (seed.level >= vector_level() || stream.level >= vector_level()) return {};
  return {Use(seed, 0), Use(stream, 0), Scalar(element.index)};
}

ir::Value CudaBody::RandomRun(const Inst& inst) {
  std::vector<ir::Value> arguments = RunArguments(inst);
  if (arguments.empty()) return {};
  return ir::CallOf(absl::StrCat(InfoOf(inst.op).name, "_run"), {Width()}, std::move(arguments));
}

// A number is a multiple of 2^-24, from the upper bits of its word.
ir::Value CudaBody::RandomComparison(const Inst& inst) {
  const Inst &number = InstOf(inst.args[0]), &limit = InstOf(inst.args[1]);
  if (number.kind != InstKind::kCompute || number.op != Op::k_philox_uniform ||
      limit.kind != InstKind::kConstant) {
    return {};
  }
  const double least = std::ceil(std::ldexp(static_cast<float>(limit.number), 24));
  if (!(least >= 0 && least < std::ldexp(1, 24))) return {};
  std::vector<ir::Value> arguments = RunArguments(number);
  if (arguments.empty()) return {};
  arguments.push_back(ir::UnsignedOf(static_cast<uint32_t>(least) << 8));
  const ir::Value at_least = ir::CallOf("philox_at_least_run", {Width()}, std::move(arguments));
  return inst.op == Op::k_ge ? at_least : ir::CallOf("logical_not", {at_least});
}

}  // namespace tensord::compiler
