// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/operators/pointwise_operands.h"

namespace tensord::compiler {

DType CommonType(Operands args, DType declared) {
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
  bool integers_only = true;
  for (const Operand& arg : args) {
    if (const auto* t = std::get_if<Tensor>(&arg)) {
      tensors.push_back(*t);
      if (IsFloating(t->dtype())) integers_only = false;
    } else if (const auto* s = std::get_if<Scalar>(&arg)) {
      scalars.push_back(*s);
    }
  }
  const DType common = PromotedType(tensors, scalars);
  return integers_only && IsFloating(common) && IsFloating(declared) ? declared : common;
}

DType FloatCommonType(Operands args, DType declared) {
  const DType common = CommonType(args, declared);
  if (IsFloating(common)) return common;
  return IsFloating(declared) ? declared : kFloat32;
}

Tensor ToTensor(Builder& b, const Operand& arg, DType dtype) {
  if (const auto* t = std::get_if<Tensor>(&arg)) return b.Cast(*t, dtype);
  return ScalarTensor(b, std::get<Scalar>(arg), ComputeType(dtype));
}

std::vector<Tensor> ToTensors(Builder& b, Operands args, DType dtype) {
  std::vector<Tensor> tensors;
  for (const Operand& arg : args) {
    if (!IsNone(arg)) tensors.push_back(ToTensor(b, arg, dtype));
  }
  return tensors;
}

OneResult Emit(Builder& b, DType dtype, const std::vector<Tensor>& inputs, const Formula& f) {
  TENSORD_RETURN_IF_ERROR(CheckBroadcast(inputs));
  return ElementwiseOf(b, dtype, inputs, f);
}

std::vector<Operand> OperandsOf(const Call& call, int item) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < call.op().parameters.size(); ++i) {
    const ArgumentType type = call.op().parameters[i].type;
    if (type != ArgumentType::kTensor && type != ArgumentType::kNumber &&
        type != ArgumentType::kReal && type != ArgumentType::kTensorOrNumber) {
      continue;
    }
    const ArgumentValue& arg = call.node().args[i];
    const ArgumentValue& one = arg.kind == ArgumentValue::kList ? arg.items[item] : arg;
    if (one.kind == ArgumentValue::kNone) {
      operands.emplace_back();
    } else if (one.kind == ArgumentValue::kValue) {
      operands.emplace_back(call.tensor_of(one));
    } else {
      operands.emplace_back(ScalarOf(one));
    }
  }
  return operands;
}

absl::StatusOr<int> ForeachLength(const Call& call) {
  int length = -1;
  for (const ArgumentValue& arg : call.node().args) {
    if (arg.kind != ArgumentValue::kList) continue;
    const int items = static_cast<int>(arg.items.size());
    if (length >= 0 && items != length) {
      return absl::InvalidArgumentError("the lists differ in length");
    }
    length = items;
  }
  return length < 0 ? 0 : length;
}

}  // namespace tensord::compiler
