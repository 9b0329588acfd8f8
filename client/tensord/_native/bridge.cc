// SPDX-License-Identifier: Apache-2.0
// The compiled program as a Python callable: tensors to handles and back with nothing in between.
//
//   init(runtime_library: str, make_error: (str, int) -> Exception,
//        run_step: (int, list, list) -> list)   once, before any Program; run_step: of call-backs
//   Program(artifact: bytes, blob_folder: str)
//   program(*inputs) or program([inputs]) -> list
//   program.workspace_bytes(inputs: sequence) -> (int, int)   all, and what is there all the time
//   lend_workspace(tensor: uint8 tensor or None): to this thread's next call on CUDA
//
// One list is AOTAutograd's boxed convention: it is cleared, and what only the list held goes as
// soon as the program needs it no more. A call that fails before its first step leaves the list as
// it was.
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "bridge.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <structmember.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "guard_tree.h"
#include "tensor_check.h"

namespace tensord::native {

Runtime runtime;

namespace {

PyObject* make_error = nullptr;  // message, code -> exception

struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  TensordProgram* program;
  Py_ssize_t num_inputs;
  Py_ssize_t num_outputs;
  const uint32_t* released;  // inputs that the program drops on its way
  size_t num_released;
};

void RaiseLastError(int code) {
  PyObject* error = PyObject_CallFunction(make_error, "si", runtime.last_error(), code);
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

// Room for `count` values, on the stack for the usual few.
template <typename T, size_t Inline>
class Room {
 public:
  explicit Room(size_t count) {
    if (count > Inline) heap_.reset(new T[count]);
    data_ = heap_ ? heap_.get() : inline_.data();
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, Inline> inline_;
  std::unique_ptr<T[]> heap_;
  T* data_;
};

// False with an exception set. The value borrows from `object`.
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

// Takes over the outputs' references, also when it fails.
PyObject* WrapOutputs(TensordValue* outputs, Py_ssize_t count) {
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = nullptr;
    if (outputs[i].kind == TENSORD_TENSOR) {
      std::unique_ptr<at::Tensor> tensor(static_cast<at::Tensor*>(outputs[i].tensor));
      if (list != nullptr) item = THPVariable_Wrap(std::move(*tensor));
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
    const c10::VariableVersion version = tensor.is_inference()
                                             ? c10::VariableVersion(c10::VariableVersion::DISABLED)
                                             : c10::VariableVersion(0);
    value.tensor = new at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
        version, /*allow_tensor_metadata_change=*/false));
    value.size = TENSORD_GIVEN;
    Py_CLEAR(objects[number]);
  }
}

// Takes back what is left of them; as the list's items again where the call did not begin.
void TakeBack(ProgramObject* self, PyObject** objects, TensordValue* inputs, bool wanted) {
  for (size_t i = 0; i < self->num_released; ++i) {
    TensordValue& value = inputs[self->released[i]];
    if (value.size != TENSORD_GIVEN || value.tensor == nullptr) continue;
    std::unique_ptr<at::Tensor> tensor(static_cast<at::Tensor*>(value.tensor));
    if (wanted) objects[self->released[i]] = THPVariable_Wrap(std::move(*tensor));
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

PyObject* Call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
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
  self->vectorcall = Call;
  self->program = program;
  self->num_inputs = static_cast<Py_ssize_t>(runtime.num_inputs(program));
  self->num_outputs = static_cast<Py_ssize_t>(runtime.num_outputs(program));
  self->num_released = runtime.released_inputs(program, &self->released);
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
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject MakeProgramType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
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
  return type;
}

// A TensordEmptyFn. Who is out of memory is told by torch's own interface, asked next.
TensordTensor EmptyOnCuda(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                          int32_t dtype) {
  try {
    static c10::Allocator* const allocator = at::detail::getCUDAHooks().getCUDADeviceAllocator();
    const auto rank = static_cast<size_t>(ndim);
    return new at::Tensor(at::detail::empty_strided_generic(
        c10::IntArrayRef(sizes, rank), c10::IntArrayRef(strides, rank), allocator,
        c10::DispatchKeySet(c10::DispatchKey::CUDA), static_cast<c10::ScalarType>(dtype)));
  } catch (...) {
    return nullptr;
  }
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

PyObject* Init(PyObject*, PyObject* args) {
  const char* path = nullptr;
  PyObject *error = nullptr, *run_step = nullptr;
  if (!PyArg_ParseTuple(args, "sOO", &path, &error, &run_step)) return nullptr;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // never closed: programs outlive everything
  if (library == nullptr) return PyErr_Format(PyExc_OSError, "cannot load %s: %s", path, dlerror());
  uint32_t (*abi)() = nullptr;
  void (*set_operator_caller)(TensordOperatorFn, void*) = nullptr;
  void (*set_cuda_empty)(TensordEmptyFn) = nullptr;
  if (!Find(library, "tensord_runtime_abi", &abi) || abi() != TENSORD_RUNTIME_ABI) {
    return PyErr_Format(PyExc_OSError, "%s has another ABI than %d", path, TENSORD_RUNTIME_ABI);
  }
  if (!Find(library, "tensord_program_load", &runtime.load) ||
      !Find(library, "tensord_program_release", &runtime.release) ||
      !Find(library, "tensord_program_run", &runtime.run) ||
      !Find(library, "tensord_program_workspace", &runtime.workspace) ||
      !Find(library, "tensord_lend_workspace", &runtime.lend_workspace) ||
      !Find(library, "tensord_program_num_inputs", &runtime.num_inputs) ||
      !Find(library, "tensord_program_num_outputs", &runtime.num_outputs) ||
      !Find(library, "tensord_program_released_inputs", &runtime.released_inputs) ||
      !Find(library, "tensord_last_error", &runtime.last_error) ||
      !Find(library, "tensord_set_error", &runtime.set_error) ||
      !Find(library, "tensord_set_operator_caller", &set_operator_caller) ||
      !Find(library, "tensord_set_cuda_empty", &set_cuda_empty)) {
    return PyErr_Format(PyExc_OSError, "%s lacks a function", path);
  }
  Py_XSETREF(make_error, Py_NewRef(error));
  set_operator_caller(CallOperator, Py_NewRef(run_step));  // for as long as the library
  set_cuda_empty(EmptyOnCuda);
  Py_RETURN_NONE;
}

PyObject* LendWorkspace(PyObject*, PyObject* object) {
  if (object == Py_None) {
    runtime.lend_workspace(nullptr, 0);
    Py_RETURN_NONE;
  }
  if (!THPVariable_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "a tensor or None is expected");
    return nullptr;
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  runtime.lend_workspace(const_cast<at::Tensor*>(&tensor), tensor.numel());
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"dispatch_keys", DispatchKeysOf, METH_O, "dispatch_keys(tensor): as GuardTree compares them."},
    {"lend_workspace", LendWorkspace, METH_O, "lend_workspace(tensor): the next call's."},
    {"init", Init, METH_VARARGS,
     "init(runtime_library, make_error, run_step): binds the runtime library."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    "_tensord_native",
    "Compiled tensord programs as callables.",
    -1,
    methods,
};

}  // namespace
}  // namespace tensord::native

PyMODINIT_FUNC PyInit__tensord_native() {
  static PyTypeObject program_type = tensord::native::MakeProgramType();
  static PyTypeObject tree_type = tensord::native::MakeGuardTreeType();
  if (PyType_Ready(&program_type) < 0 || PyType_Ready(&tree_type) < 0) return nullptr;
  PyObject* module = PyModule_Create(&tensord::native::module_definition);
  if (module == nullptr) return nullptr;
  if (PyModule_AddObjectRef(module, "Program", reinterpret_cast<PyObject*>(&program_type)) < 0 ||
      PyModule_AddObjectRef(module, "GuardTree", reinterpret_cast<PyObject*>(&tree_type)) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
