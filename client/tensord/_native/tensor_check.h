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

bool HasOwnAttributes(PyObject* object);
// Among which are none by which a user says that a dimension is dynamic.
bool HasNoMarks(PyObject* object);

// Checks of many tensors, each of the same object every time. What they compare with lies side by
// side, and what they read of the process is read once for all.
class TensorChecks {
 public:
  // Of a tensor, which is borrowed for as long as it is asked about. is_bare: it has no attributes
  // of its own, which shows in Ask; else none is a mark, which the caller sees to.
  void Add(const TensorCheck& check, PyObject* object, bool is_bare);

  enum Answer {
    kAllHold,
    kOneDoesNot,
    kUnknown,  // a bare one has got attributes, or one is a tensor no more
  };
  // Runs no code of Python's.
  Answer Ask() const;

 private:
  struct One {
    PyObject* object;
    PyTypeObject* type;
    uint64_t dispatch_keys;
    uint32_t sizes;  // where they begin in numbers_, strides behind them
    uint16_t rank;
    at::ScalarType dtype;
    at::DeviceIndex device_index;
    bool requires_grad, has_sizes, is_bare;
    bool any_size, any_stride;  // is compared: a sparse tensor has no strides to ask for
  };
  std::vector<One> all_;
  std::vector<int64_t> numbers_;  // kAny: not compared
};

// dispatch_keys(tensor) -> int.
PyObject* DispatchKeysOf(PyObject* module, PyObject* tensor);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_TENSOR_CHECK_H_
