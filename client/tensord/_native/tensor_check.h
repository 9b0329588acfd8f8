// SPDX-License-Identifier: Apache-2.0
// What a guard asks of a tensor (TensorFacts of frame.proto).
#ifndef TENSORD_NATIVE_TENSOR_CHECK_H_
#define TENSORD_NATIVE_TENSOR_CHECK_H_

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <optional>
#include <vector>

namespace tensord::native {

struct TensorCheck {
  PyTypeObject* type = nullptr;  // kept by the check's argument
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::DeviceIndex device_index = -1;
  bool requires_grad = false;
  uint64_t dispatch_keys = 0;
  bool has_sizes = false;
  std::vector<std::optional<int64_t>> sizes, strides;
  PyObject* marks = nullptr;  // dict of attribute to set; kept by the check's argument
  // Up to Python 3.11: the version of a tensor's own dictionary that has no marks.
  mutable uint64_t unmarked_version = 0;
};

// Of (type, dtype, device index, requires_grad, dispatch keys, sizes or None, strides, marks):
// tuples of int, None where any serves; marks: a dict of attribute to set. Nothing with an
// exception set. The check borrows from the argument.
std::optional<TensorCheck> ReadTensorCheck(PyObject* argument);

// Whether the object is such a tensor, in the present grad mode and under the present dispatch
// keys.
bool IsTensor(const TensorCheck& check, PyObject* object);

// dispatch_keys(tensor) -> int.
PyObject* DispatchKeysOf(PyObject* module, PyObject* tensor);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_TENSOR_CHECK_H_
