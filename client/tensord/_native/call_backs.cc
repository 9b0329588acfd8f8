// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "bridge.h"

namespace tensord::native {
namespace {

// A reference to a Python object that ends with it; of what a call made, null when it raised.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

PyObject* ToPython(const TensordValue& value) {
  if (value.kind == TENSORD_TENSOR) {
    return THPVariable_Wrap(*static_cast<const at::Tensor*>(value.tensor));
  }
  if (value.kind == TENSORD_NONE) return Py_NewRef(Py_None);
  return PyLong_FromLongLong(value.integer);
}

// Appends the items of a list argument; false with an exception set.
bool Append(PyObject* list, const TensordValue& items) {
  for (size_t i = 0; i < items.size; ++i) {
    const Owned item(ToPython(items.items[i]));
    if (item.get() == nullptr || PyList_Append(list, item.get()) != 0) return false;
  }
  return true;
}

// False with an exception set.
bool Store(PyObject* results, const TensordOperatorCall& call) {
  if (!PyList_Check(results) ||
      PyList_GET_SIZE(results) != static_cast<Py_ssize_t>(call.num_results)) {
    PyErr_SetString(PyExc_TypeError, "a call-back must give a list of its results");
    return false;
  }
  for (size_t i = 0; i < call.num_results; ++i) {
    PyObject* item = PyList_GET_ITEM(results, static_cast<Py_ssize_t>(i));
    call.results[i] =
        THPVariable_Check(item) ? new at::Tensor(Plain(THPVariable_Unpack(item))) : nullptr;
  }
  return true;
}

bool Run(PyObject* function, const TensordOperatorCall& call) {
  const TensordValue &writes = call.args[1], &reads = call.args[2], &numbers = call.args[3];
  const Owned number(PyLong_FromLongLong(call.args[0].integer));
  const Owned tensors(PyList_New(0)), sizes(PyList_New(0));
  if (number.get() == nullptr || tensors.get() == nullptr || sizes.get() == nullptr ||
      !Append(tensors.get(), writes) || !Append(tensors.get(), reads) ||
      !Append(sizes.get(), numbers)) {
    return false;
  }
  const Owned results(
      PyObject_CallFunctionObjArgs(function, number.get(), tensors.get(), sizes.get(), nullptr));
  return results.get() != nullptr && Store(results.get(), call);
}

// Takes the exception that is set. Requires the GIL.
std::string TakeError() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Owned of_type(type), of_value(value), of_trace(trace);
  const Owned text(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* utf8 = text.get() != nullptr ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const std::string what = utf8 != nullptr ? utf8 : "an exception without a text";
  PyErr_Clear();
  return what;
}

}  // namespace

std::optional<std::string> TakePythonError() {
  const WithGil gil;
  if (PyErr_Occurred() == nullptr) return std::nullopt;
  return TakeError();
}

int CallBack(PyObject* function, const TensordOperatorCall& call) {
  const WithGil gil;
  if (function != nullptr && Run(function, call)) return TENSORD_OK;
  runtime.set_error(PyErr_Occurred() != nullptr ? TakeError().c_str() : "nobody runs call-backs");
  return TENSORD_OPERATOR;
}

}  // namespace tensord::native
