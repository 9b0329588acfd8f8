// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "guard_sources.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/PyInterpreter.h>

namespace tensord::native {
namespace {

Reference AtPlace(PyObject* dictionary, Py_ssize_t number, bool key) {
  if (!PyDict_Check(dictionary)) return {};
  Py_ssize_t at = 0;
  PyObject *k = nullptr, *v = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(dictionary, &at, &k, &v); ++i) {
    if (i == number) return Reference::To(key ? k : v);
  }
  return {};
}

// The part of a function, by `get` of it, else the attribute of another callable.
Reference PartOf(PyObject* callable, PyObject* (*get)(PyObject*), const char* attribute) {
  if (PyFunction_Check(callable)) return Reference::To(get(callable));
  return Reference(PyObject_GetAttrString(callable, attribute));
}

Reference DefaultOf(PyObject* callable, Py_ssize_t number) {
  const Reference items = PartOf(callable, PyFunction_GetDefaults, "__defaults__");
  if (!items || !PyTuple_Check(items.get()) || number < 0 ||
      number >= PyTuple_GET_SIZE(items.get())) {
    return {};
  }
  return Reference::To(PyTuple_GET_ITEM(items.get(), number));
}

// A dictionary of the class itself, which a mapping proxy would be slower to ask.
Reference DictionaryOf(PyObject* object) {
  if (!PyType_Check(object)) return Reference(PyObject_GetAttrString(object, "__dict__"));
  auto* type = reinterpret_cast<PyTypeObject*>(object);
#if PY_VERSION_HEX >= 0x030C0000
  return Reference(PyType_GetDict(type));
#else
  return Reference::To(type->tp_dict);
#endif
}

Reference NumberOf(PyObject* object, Step step, Py_ssize_t number) {
  if (!THPVariable_Check(object)) return {};
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (step == kStorageOffset) return Reference(PyLong_FromLongLong(tensor.storage_offset()));
  if (number < 0 || number >= tensor.dim()) return {};
  return Reference(
      PyLong_FromLongLong(step == kSize ? tensor.size(number) : tensor.stride(number)));
}

// Of what the iterator of a tuple has left, which it says as (iter, (tuple,), place).
Reference LeftOf(PyObject* iterator, Py_ssize_t number) {
  if (Py_TYPE(iterator) != &PyTupleIter_Type) return {};
  const Reference reduced(PyObject_CallMethod(iterator, "__reduce__", nullptr));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) != 3) return {};
  PyObject* arguments = PyTuple_GET_ITEM(reduced.get(), 1);
  const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(reduced.get(), 2));
  if (!PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1) return {};
  PyObject* items = PyTuple_GET_ITEM(arguments, 0);
  if (!PyTuple_Check(items) || place < 0 || place + number >= PyTuple_GET_SIZE(items)) return {};
  return Reference::To(PyTuple_GET_ITEM(items, place + number));
}

// From the object's own dictionary where it is there, which is the faster way.
Reference OwnAttribute(PyObject* object, PyObject* name) {
  PyObject** own = _PyObject_GetDictPtr(object);
  if (own != nullptr && *own != nullptr) {
    if (PyObject* found = PyDict_GetItemWithError(*own, name)) return Reference::To(found);
    if (PyErr_Occurred() != nullptr) return {};
  }
  return Reference(PyObject_GenericGetAttr(object, name));
}

Reference KeywordDefault(PyObject* function, PyObject* name) {
  const Reference defaults = PartOf(function, PyFunction_GetKwDefaults, "__kwdefaults__");
  if (!defaults || !PyDict_Check(defaults.get())) return {};
  return Reference::To(PyDict_GetItemWithError(defaults.get(), name));
}

Reference Referent(PyObject* reference) {
  if (!PyWeakref_Check(reference)) return {};
  return Reference(PyObject_CallNoArgs(reference));
}

// Shares the array's memory, so that it is cheap.
Reference TensorOf(PyObject* value) {
  const char* const module = "numpy";
  const Reference numpy(PyImport_GetModule(Reference(PyUnicode_FromString(module)).get()));
  if (!numpy) return Reference::To(value);
  for (const char* const name : {"ndarray", "generic"}) {
    const Reference kind(PyObject_GetAttrString(numpy.get(), name));
    if (!kind) return {};
    const int is = PyObject_IsInstance(value, kind.get());
    if (is < 0) return {};
    if (is == 0) continue;
    const Reference torch(PyImport_ImportModule("torch"));
    if (!torch) return {};
    return Reference(PyObject_CallMethod(torch.get(), "as_tensor", "O", value));
  }
  return Reference::To(value);
}

Reference FunctionMode(Py_ssize_t number) {
  using Modes = at::impl::PythonTorchFunctionTLS;
  if (number < 0 || number >= Modes::stack_len()) return {};
  return Reference::To(Modes::get_stack_at(number)->ptr(getPyInterpreter()));
}

}  // namespace

Reference FindSource(const SourceNode& source, PyObject* base, PyObject* locals,
                     PyObject* globals) {
  PyObject* argument = source.argument.get();
  switch (source.step) {
    case kLocal:
      return Reference::To(PyDict_GetItemWithError(locals, argument));
    case kGlobal:
      return Reference::To(PyDict_GetItemWithError(globals, argument));
    case kModule:
    case kBuiltins:
      return Reference::To(argument);
    case kAttribute:
      return Reference(PyObject_GetAttr(base, argument));
    case kOwnAttribute:
      return OwnAttribute(base, argument);
    case kItem:
      return Reference(PyObject_GetItem(base, argument));
    case kDictionaryItem:
      if (PyDict_Check(base)) return Reference::To(PyDict_GetItemWithError(base, argument));
      return Reference(PyObject_GetItem(base, argument));
    case kKey:
    case kItemOfKey:
      return AtPlace(base, source.number, source.step == kKey);
    case kType:
      return Reference::To(reinterpret_cast<PyObject*>(Py_TYPE(base)));
    case kTypeDictionary:
      return DictionaryOf(base);
    case kMethodOrder:
      if (!PyType_Check(base)) return {};
      return Reference::To(reinterpret_cast<PyTypeObject*>(base)->tp_mro);
    case kCode:
      return PartOf(base, PyFunction_GetCode, "__code__");
    case kClosure:
      return PartOf(base, PyFunction_GetClosure, "__closure__");
    case kDefault:
      return DefaultOf(base, source.number);
    case kKeywordDefault:
      return KeywordDefault(base, argument);
    case kSize:
    case kStride:
    case kStorageOffset:
      return NumberOf(base, source.step, source.number);
    case kGradient:
      return Reference(PyObject_GetAttrString(base, "grad"));
    case kCall:
      return Referent(base);
    case kItemOfTupleIterator:
      return LeftOf(base, source.number);
    case kTensorOf:
      return TensorOf(base);
    case kFunctionMode:
      return FunctionMode(source.number);
    case kCell:
    case kSteps:
      break;
  }
  return {};
}

}  // namespace tensord::native
