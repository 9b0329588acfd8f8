// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "tensor_check.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>

namespace tensord::native {
namespace {

uint64_t DispatchKeys(const at::Tensor& tensor) {
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  return ((tensor.key_set() | local.included_) - local.excluded_).raw_repr();
}

bool ReadNumbers(PyObject* tuple, std::vector<std::optional<int64_t>>* numbers) {
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "a tuple of sizes is expected");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    numbers->push_back(item == Py_None ? std::nullopt
                                       : std::optional<int64_t>(PyLong_AsLongLong(item)));
  }
  return PyErr_Occurred() == nullptr;
}

// The attributes by which a user says that a dimension is dynamic: of those that were there, what
// is there must be a part; of others there must be none.
bool HasMarks(PyObject* tensor, const TensorCheck& check) {
  PyObject** own = _PyObject_GetDictPtr(tensor);
  if (own == nullptr || *own == nullptr || PyDict_GET_SIZE(*own) == 0) return true;
#if PY_VERSION_HEX < 0x030C0000
  // Of a dictionary that had none and is as it was; no other has had its number.
  const uint64_t version = reinterpret_cast<PyDictObject*>(*own)->ma_version_tag;
  if (version == check.unmarked_version) return true;
#endif
  static PyObject* const kAttributes[] = {
      PyUnicode_InternFromString("_dynamo_dynamic_indices"),
      PyUnicode_InternFromString("_dynamo_weak_dynamic_indices"),
      PyUnicode_InternFromString("_dynamo_unbacked_indices"),
      PyUnicode_InternFromString("_dynamo_strict_unbacked_indices"),
      PyUnicode_InternFromString("_dynamo_static_indices")};
  bool any = false;
  for (PyObject* attribute : kAttributes) {
    PyObject* marked = PyDict_GetItemWithError(*own, attribute);
    if (marked == nullptr) continue;
    any = true;
    PyObject* expected = PyDict_GetItemWithError(check.marks, attribute);
    if (expected == nullptr || PyObject_RichCompareBool(marked, expected, Py_LE) != 1) {
      return false;
    }
  }
#if PY_VERSION_HEX < 0x030C0000
  if (!any) check.unmarked_version = version;
#endif
  return true;
}

}  // namespace

std::optional<TensorCheck> ReadTensorCheck(PyObject* argument) {
  PyObject *type, *dtype, *sizes, *strides, *marks;
  int index = 0, requires_grad = 0;
  unsigned long long keys = 0;
  if (!PyArg_ParseTuple(argument, "OOipKOOO", &type, &dtype, &index, &requires_grad, &keys, &sizes,
                        &strides, &marks)) {
    return std::nullopt;
  }
  if (!PyType_Check(type) || !THPDtype_Check(dtype) || !PyDict_Check(marks)) {
    PyErr_SetString(PyExc_TypeError, "a class, a dtype and a dictionary are expected");
    return std::nullopt;
  }
  TensorCheck check;
  check.type = reinterpret_cast<PyTypeObject*>(type);
  check.dtype = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
  check.device_index = static_cast<at::DeviceIndex>(index);
  check.requires_grad = requires_grad != 0;
  check.dispatch_keys = keys;
  check.marks = marks;
  check.has_sizes = sizes != Py_None;
  if (check.has_sizes &&
      (!ReadNumbers(sizes, &check.sizes) || !ReadNumbers(strides, &check.strides))) {
    return std::nullopt;
  }
  return check;
}

bool IsTensor(const TensorCheck& check, PyObject* value) {
  if (Py_TYPE(value) != check.type) return false;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (tensor.scalar_type() != check.dtype || tensor.device().index() != check.device_index ||
      (at::GradMode::is_enabled() && tensor.requires_grad()) != check.requires_grad ||
      DispatchKeys(tensor) != check.dispatch_keys) {
    return false;
  }
  if (check.has_sizes) {
    const auto rank = static_cast<size_t>(tensor.dim());
    if (rank != check.sizes.size()) return false;
    for (size_t d = 0; d < rank; ++d) {
      if (check.sizes[d] && *check.sizes[d] != tensor.size(static_cast<int64_t>(d))) return false;
      if (check.strides[d] && *check.strides[d] != tensor.stride(static_cast<int64_t>(d))) {
        return false;
      }
    }
  }
  return HasMarks(value, check);
}

PyObject* DispatchKeysOf(PyObject*, PyObject* object) {
  if (!THPVariable_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "a tensor is expected");
    return nullptr;
  }
  return PyLong_FromUnsignedLongLong(DispatchKeys(THPVariable_Unpack(object)));
}

}  // namespace tensord::native
