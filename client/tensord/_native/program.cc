// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "program.h"

#include <structmember.h>

#include <memory>
#include <vector>

namespace tensord::native {

PyObject* make_error = nullptr;

void RaiseLastError(int code) {
  PyObject* error = PyObject_CallFunction(make_error, "si", runtime.last_error(), code);
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

bool Convert(PyObject* object, TensordValue* value) {
  if (THPVariable_Check(object)) {
    value->kind = TENSORD_TENSOR;
    value->tensor = const_cast<at::Tensor*>(&THPVariable_Unpack(object));
    return true;
  }
  if (object == Py_None) {
    value->kind = TENSORD_NONE;
    return true;
  }
  value->kind = TENSORD_INT;
  PyObject* index = PyNumber_Index(object);
  if (index == nullptr) return false;
  value->integer = PyLong_AsLongLong(index);
  Py_DECREF(index);
  return value->integer != -1 || PyErr_Occurred() == nullptr;
}

at::Tensor TakeTensor(TensordValue& value) {
  const std::unique_ptr<at::Tensor> tensor(static_cast<at::Tensor*>(value.tensor));
  return std::move(*tensor);
}

void GiveTensor(const at::Tensor& tensor, TensordValue* value) {
  const c10::VariableVersion version = tensor.is_inference()
                                           ? c10::VariableVersion(c10::VariableVersion::DISABLED)
                                           : c10::VariableVersion(0);
  value->tensor = new at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      version, /*allow_tensor_metadata_change=*/false));
  value->size = TENSORD_GIVEN;
}

void Donate(TensordValue* value) {
  const c10::Storage& storage =
      static_cast<at::Tensor*>(value->tensor)->unsafeGetTensorImpl()->unsafe_storage();
  // Memory that torch did not allocate, as NumPy's, cannot be resized.
  if (storage.use_count() == 1 && storage.resizable()) value->size = TENSORD_DONATED;
}

bool IsGiven(const TensordValue& value) {
  return value.kind == TENSORD_TENSOR && value.tensor != nullptr &&
         (value.size == TENSORD_GIVEN || value.size == TENSORD_DONATED);
}

namespace {

// Takes over the outputs' references, also when it fails.
PyObject* WrapOutputs(TensordValue* outputs, Py_ssize_t count) {
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = nullptr;
    if (outputs[i].kind == TENSORD_TENSOR) {
      at::Tensor tensor = TakeTensor(outputs[i]);
      if (list != nullptr) item = THPVariable_Wrap(std::move(tensor));
    } else if (outputs[i].kind == TENSORD_INT) {
      item = PyLong_FromLongLong(outputs[i].integer);
    } else {
      item = Py_NewRef(Py_None);
    }
    if (list == nullptr || item == nullptr) {
      Py_XDECREF(item);
      Py_CLEAR(list);
      continue;
    }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

// False with an exception set.
bool ConvertAll(ProgramObject* self, PyObject* const* objects, Py_ssize_t count,
                TensordValue* inputs) {
  if (count != self->num_inputs) {
    PyErr_Format(PyExc_TypeError, "the program takes %zd inputs, not %zd", self->num_inputs, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    inputs[i].size = 0;
    if (!Convert(objects[i], &inputs[i])) return false;
  }
  return true;
}

// Null with an exception set, and the runtime's code in `code`.
PyObject* Run(ProgramObject* self, TensordValue* inputs, int* code) {
  Room<TensordValue, 32> outputs(static_cast<size_t>(self->num_outputs));
  PyThreadState* thread = PyEval_SaveThread();
  *code = runtime.run(self->program, inputs, static_cast<size_t>(self->num_inputs), outputs.data(),
                      static_cast<size_t>(self->num_outputs));
  PyEval_RestoreThread(thread);
  if (*code == TENSORD_OK) return WrapOutputs(outputs.data(), self->num_outputs);
  RaiseLastError(*code);
  return nullptr;
}

PyObject* RunPlain(ProgramObject* self, PyObject* const* objects, Py_ssize_t count) {
  Room<TensordValue, 64> inputs(static_cast<size_t>(count));
  int code = TENSORD_OK;
  if (!ConvertAll(self, objects, count, inputs.data())) return nullptr;
  return Run(self, inputs.data(), &code);
}

// Hands the inputs that the program drops over to it. The program gets a tensor of its own on the
// same memory, so that the last reference to a Python object never goes where nobody has the GIL:
// waiting for it there would take as long as another thread likes to compute.
void Give(ProgramObject* self, PyObject** objects, TensordValue* inputs) {
  for (size_t i = 0; i < self->num_released; ++i) {
    const uint32_t number = self->released[i];
    TensordValue& value = inputs[number];
    if (value.kind != TENSORD_TENSOR || !THPVariable_CheckExact(objects[number])) continue;
    const at::Tensor& tensor = *static_cast<const at::Tensor*>(value.tensor);
    if (tensor.layout() != at::kStrided) continue;
    GiveTensor(tensor, &value);
    Py_CLEAR(objects[number]);
    Donate(&value);
  }
}

// Takes back what is left of them; as the list's items again where the call did not begin.
void TakeBack(ProgramObject* self, PyObject** objects, TensordValue* inputs, bool wanted) {
  for (size_t i = 0; i < self->num_released; ++i) {
    TensordValue& value = inputs[self->released[i]];
    if (!IsGiven(value)) continue;
    at::Tensor tensor = TakeTensor(value);
    if (wanted) objects[self->released[i]] = THPVariable_Wrap(std::move(tensor));
  }
}

bool Began(int code) {
  return code == TENSORD_OPERATOR || code == TENSORD_OUT_OF_MEMORY || code == TENSORD_INDEX;
}

// Fills the emptied list again. The exception that is set stays.
void Refill(PyObject* list, PyObject* const* objects, Py_ssize_t count) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyList_Append(list, objects[i] != nullptr ? objects[i] : Py_None) != 0) PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

// The list loses its items, as the convention asks.
PyObject* RunBoxed(ProgramObject* self, PyObject* list) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  Room<PyObject*, 64> objects(static_cast<size_t>(count));
  Room<TensordValue, 64> inputs(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    objects[static_cast<size_t>(i)] = Py_NewRef(PyList_GET_ITEM(list, i));
  }
  PyObject* result = nullptr;
  if (ConvertAll(self, objects.data(), count, inputs.data()) &&
      PyList_SetSlice(list, 0, count, nullptr) == 0) {
    int code = TENSORD_OK;
    Give(self, objects.data(), inputs.data());
    result = Run(self, inputs.data(), &code);
    const bool wanted = result == nullptr && code != TENSORD_OK && !Began(code);
    TakeBack(self, objects.data(), inputs.data(), wanted);
    if (wanted) Refill(list, objects.data(), count);
  }
  for (Py_ssize_t i = 0; i < count; ++i) Py_XDECREF(objects[static_cast<size_t>(i)]);
  return result;
}

PyObject* CallProgram(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<ProgramObject*>(callable);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (names != nullptr && PyTuple_GET_SIZE(names) != 0) {
    PyErr_SetString(PyExc_TypeError, "a program takes no keyword arguments");
    return nullptr;
  }
  try {
    if (count == 1 && PyList_CheckExact(args[0])) return RunBoxed(self, args[0]);
    return RunPlain(self, args, count);
  } catch (const std::exception& error) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* NewProgram(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  const char* artifact = nullptr;
  Py_ssize_t size = 0;
  const char* folder = nullptr;
  if (!PyArg_ParseTuple(args, "y#s", &artifact, &size, &folder)) return nullptr;
  if (runtime.load == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "call init first");
    return nullptr;
  }
  TensordProgram* program = nullptr;
  PyThreadState* thread = PyEval_SaveThread();  // `args` keeps the bytes
  const int code = runtime.load(artifact, static_cast<size_t>(size), folder, &program);
  PyEval_RestoreThread(thread);
  if (code != TENSORD_OK) {
    RaiseLastError(code);
    return nullptr;
  }
  auto* self = reinterpret_cast<ProgramObject*>(type->tp_alloc(type, 0));
  if (self == nullptr) {
    runtime.release(program);
    return nullptr;
  }
  self->vectorcall = CallProgram;
  self->program = program;
  self->num_inputs = static_cast<Py_ssize_t>(runtime.num_inputs(program));
  self->num_outputs = static_cast<Py_ssize_t>(runtime.num_outputs(program));
  self->num_released = runtime.released_inputs(program, &self->released);
  self->number = runtime.number(program);
  return reinterpret_cast<PyObject*>(self);
}

void DeallocateProgram(PyObject* object) {
  auto* self = reinterpret_cast<ProgramObject*>(object);
  if (self->program != nullptr) runtime.release(self->program);
  Py_TYPE(object)->tp_free(object);
}

PyObject* WorkspaceBytes(PyObject* object, PyObject* inputs) {
  auto* self = reinterpret_cast<ProgramObject*>(object);
  PyObject* items = PySequence_Fast(inputs, "a sequence of inputs is expected");
  if (items == nullptr) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  std::vector<TensordValue> values(static_cast<size_t>(count));
  bool converted = true;
  for (Py_ssize_t i = 0; converted && i < count; ++i) {
    converted = Convert(PySequence_Fast_GET_ITEM(items, i), &values[static_cast<size_t>(i)]);
  }
  int64_t whole = 0, least = 0;
  const int code = converted ? runtime.workspace(self->program, values.data(),
                                                 static_cast<size_t>(count), &whole, &least)
                             : TENSORD_INVALID;
  Py_DECREF(items);
  if (!converted) return nullptr;
  if (code == TENSORD_OK) {
    return Py_BuildValue("LL", static_cast<long long>(whole), static_cast<long long>(least));
  }
  RaiseLastError(code);
  return nullptr;
}

PyMethodDef program_methods[] = {
    {"workspace_bytes", WorkspaceBytes, METH_O, "What a call with these inputs takes, on CUDA."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef program_members[] = {
    {"num_inputs", T_PYSSIZET, offsetof(ProgramObject, num_inputs), READONLY, nullptr},
    {"num_outputs", T_PYSSIZET, offsetof(ProgramObject, num_outputs), READONLY, nullptr},
    {"number", T_ULONGLONG, offsetof(ProgramObject, number), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyTypeObject* ProgramType() {
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "_tensord_native.Program";
  type.tp_doc = "A compiled program, loaded into this process.";
  type.tp_basicsize = sizeof(ProgramObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = offsetof(ProgramObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_new = NewProgram;
  type.tp_dealloc = DeallocateProgram;
  type.tp_members = program_members;
  type.tp_methods = program_methods;
  return &type;
}

}  // namespace tensord::native
