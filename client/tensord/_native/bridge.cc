// SPDX-License-Identifier: Apache-2.0
// The compiled program as a Python callable: tensors to handles and back with nothing in between.
//
//   init(runtime_library: str, make_error: (str, int) -> Exception,
//        run_step: (int, list, list) -> list)   once, before any Program; run_step: of call-backs
//   Program(artifact: bytes, blob_folder: str)
//   program(*inputs) or program([inputs]) -> list
//   program.number: int   what profiles know it by (tensord_program_number)
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

#include <string>
#include <utility>

#include "dict_versions.h"
#include "graph_call.h"
#include "guard_checks.h"
#include "guard_tree.h"
#include "loans.h"
#include "program.h"
#include "state_check.h"
#include "tensor_check.h"

namespace tensord::native {

Runtime runtime;

namespace {

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
      !Find(library, "tensord_program_number", &runtime.number) ||
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
    {"type_version", TypeVersion, METH_O, "type_version(class): another after each change of it."},
    {"thread_state", ThreadStateOf, METH_NOARGS, "thread_state(): as GuardTree compares it."},
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
  tensord::native::LearnOfDictVersions();
  static PyTypeObject tree_type = tensord::native::MakeGuardTreeType();
  const std::pair<const char*, PyTypeObject*> types[] = {
      {"Program", tensord::native::ProgramType()},
      {"GraphCall", tensord::native::GraphCallType()},
      {"GuardTree", &tree_type},
      {"Loans", tensord::native::LoansType()},
  };
  PyObject* module = PyModule_Create(&tensord::native::module_definition);
  if (module == nullptr) return nullptr;
  for (const auto& [name, type] : types) {
    if (PyType_Ready(type) < 0 ||
        PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)) < 0) {
      Py_DECREF(module);
      return nullptr;
    }
  }
  return module;
}
