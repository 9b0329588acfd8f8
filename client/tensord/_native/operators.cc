// SPDX-License-Identifier: Apache-2.0
#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "bridge.h"

namespace tensord::native {
namespace {

const at::Tensor& TensorIn(const TensordValue& value) {
  return *static_cast<const at::Tensor*>(value.tensor);
}

[[noreturn]] void Unfit(const c10::Type& type) {
  throw std::runtime_error("an argument does not fit the schema's " + type.str());
}

// `value` as the schema's `type` has it.
c10::IValue ToIValue(const TensordValue& value, const c10::Type& type);

template <typename T, typename Get>
c10::IValue ConvertList(const TensordValue& value, const Get& get) {
  c10::List<T> list;
  list.reserve(value.size);
  for (size_t i = 0; i < value.size; ++i) list.push_back(get(value.items[i]));
  return list;
}

double Real(const TensordValue& value) {
  return value.kind == TENSORD_DOUBLE ? value.real : static_cast<double>(value.integer);
}

c10::IValue ConvertItems(const TensordValue& value, const c10::Type& list) {
  const c10::TypePtr item = list.containedTypes().at(0);
  switch (item->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ConvertList<int64_t>(value, [](const TensordValue& v) { return v.integer; });
    case c10::TypeKind::FloatType:
      return ConvertList<double>(value, Real);
    case c10::TypeKind::BoolType:
      return ConvertList<bool>(value, [](const TensordValue& v) { return v.integer != 0; });
    case c10::TypeKind::TensorType:
      return ConvertList<at::Tensor>(value, TensorIn);
    default:
      break;
  }
  if (item->kind() == c10::TypeKind::OptionalType &&
      item->containedTypes().at(0)->kind() == c10::TypeKind::TensorType) {
    return ConvertList<std::optional<at::Tensor>>(
        value, [](const TensordValue& v) -> std::optional<at::Tensor> {
          return v.kind == TENSORD_TENSOR ? std::optional(TensorIn(v)) : std::nullopt;
        });
  }
  c10::impl::GenericList generic(item);
  for (size_t i = 0; i < value.size; ++i) generic.push_back(ToIValue(value.items[i], *item));
  return generic;
}

c10::IValue ToIValue(const TensordValue& value, const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    if (value.kind == TENSORD_NONE) return {};
    return ToIValue(value, *type.containedTypes().at(0));
  }
  switch (value.kind) {
    case TENSORD_NONE:
      // An undefined tensor where the schema has no option for it.
      if (type.kind() == c10::TypeKind::TensorType) return at::Tensor();
      return {};
    case TENSORD_TENSOR:
      return TensorIn(value);
    case TENSORD_INT:
    case TENSORD_BOOL:
    case TENSORD_DOUBLE:
      break;
    case TENSORD_STRING:
      return std::string(value.text, value.size);
    case TENSORD_DTYPE:
    case TENSORD_MEMORY_FORMAT:
    case TENSORD_LAYOUT:
      return value.integer;
    case TENSORD_DEVICE: {
      const auto kind = static_cast<c10::DeviceType>(value.integer);
      const bool indexed = kind == c10::DeviceType::CUDA;
      return indexed ? c10::Device(kind, static_cast<c10::DeviceIndex>(value.size))
                     : c10::Device(kind);
    }
    case TENSORD_LIST:
      if (type.kind() != c10::TypeKind::ListType) Unfit(type);
      return ConvertItems(value, type);
  }
  switch (type.kind()) {
    case c10::TypeKind::FloatType:
      return Real(value);
    case c10::TypeKind::BoolType:
      return value.integer != 0;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (value.kind == TENSORD_DOUBLE) Unfit(type);
      return value.integer;
    case c10::TypeKind::NumberType:
      if (value.kind == TENSORD_DOUBLE) return value.real;
      if (value.kind == TENSORD_BOOL) return value.integer != 0;
      return value.integer;
    case c10::TypeKind::TensorType: {
      // As in Python, where x * 2 calls mul.Tensor: a number that does not widen x's dtype.
      at::Tensor number = value.kind == TENSORD_DOUBLE ? at::scalar_to_tensor(value.real)
                          : value.kind == TENSORD_BOOL ? at::scalar_to_tensor(value.integer != 0)
                                                       : at::scalar_to_tensor(value.integer);
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    default:
      Unfit(type);
  }
}

// Results in order, lists of tensors flattened.
void Store(const c10::Stack& stack, const TensordOperatorCall& call) {
  size_t count = 0;
  auto add = [&](const at::Tensor& tensor) {
    if (count == call.num_results) return;
    call.results[count++] = tensor.defined() ? new at::Tensor(Plain(tensor)) : nullptr;
  };
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    } else {
      add(at::Tensor());
    }
  }
}

void Run(const TensordOperatorCall& call) {
  const auto found = c10::Dispatcher::singleton().findSchema({call.op, call.overload});
  if (!found.has_value()) throw std::runtime_error("torch does not know this operator");
  const auto& parameters = found->schema().arguments();
  if (parameters.size() != call.num_args) {
    throw std::runtime_error("torch's operator takes " + std::to_string(parameters.size()) +
                             " arguments, not " + std::to_string(call.num_args));
  }
  c10::Stack stack;
  stack.reserve(call.num_args);
  for (size_t i = 0; i < call.num_args; ++i) {
    // real_type: `type` calls a ScalarType, a MemoryFormat and a Layout an int.
    stack.push_back(ToIValue(call.args[i], *parameters[i].real_type()));
  }
  // Below view tracking too: a view of a parameter would say that it requires a gradient.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  found->callBoxed(&stack);
  Store(stack, call);
}

}  // namespace

int CallOperator(void* context, const TensordOperatorCall* call) {
  try {
    if (std::strcmp(call->op, "tensord::call_back") == 0) {
      return CallBack(static_cast<PyObject*>(context), *call);
    }
    if (call->again != 0) TakePythonError();
    Run(*call);
    return TENSORD_OK;
  } catch (const c10::OutOfMemoryError& error) {
    runtime.set_error(error.what_without_backtrace());
    return TENSORD_OUT_OF_MEMORY;
  } catch (const c10::Error& error) {
    runtime.set_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    // Under a mode of torch's (__torch_dispatch__) operators are called from Python.
    const std::optional<std::string> raised = TakePythonError();
    runtime.set_error(raised ? raised->c_str() : error.what());
  } catch (...) {
    runtime.set_error("an unknown exception");
  }
  return TENSORD_OPERATOR;
}

}  // namespace tensord::native
