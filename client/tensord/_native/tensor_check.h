// SPDX-License-Identifier: Apache-2.0
// What a guard asks of a tensor (TensorFacts of frame.proto).
#ifndef TENSORD_NATIVE_TENSOR_CHECK_H_
#define TENSORD_NATIVE_TENSOR_CHECK_H_

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <optional>
#include <vector>

#include "dict_versions.h"

namespace tensord::native {

// All but its sizes and marks.
struct TensorFacts {
  PyTypeObject* type = nullptr;  // kept by the check's argument
  uint64_t dispatch_keys = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::DeviceIndex device_index = -1;
  bool requires_grad = false;
};

struct TensorCheck {
  TensorFacts facts;
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

// Checks of many tensors that have no marks of dynamic dimensions, each of the same object every
// time. What they compare with lies side by side, and what they read of the process is read once
// for all.
class TensorChecks {
 public:
  // False, and not added: what is no torch.Tensor or Parameter but may be one of a subclass, whose
  // sizes Python may say; or has marks. The object is borrowed for as long as it is asked about.
  bool Add(const TensorCheck& check, PyObject* object);

  enum Answer {
    kAllHold,
    kOneDoesNot,
    kUnknown,  // one has got a mark
  };
  // Whether all hold. Runs no code of Python's while it reads what is borrowed.
  Answer Ask();

 private:
  // Of a tensor's own dictionary, when it had no marks. All null: there was none.
  struct Unmarked {
    PyObject* dictionary = nullptr;  // only compared
    DictVersion version;
    uint64_t number = 0;
  };
  struct One {
    PyObject* object;
    TensorFacts facts;
    uint32_t sizes;  // where they begin in numbers_, strides behind them
    uint16_t rank;
    bool has_sizes;
    bool any_size, any_stride;  // is compared: a sparse tensor has no strides to ask for
    Unmarked unmarked;
  };
  static bool IsUnmarked(const One& one);
  // Looks for marks, and notes that there are none.
  static bool NoteUnmarked(One& one);

  std::vector<One> all_;
  std::vector<int64_t> numbers_;  // kAny: not compared
};

// dispatch_keys(tensor) -> int.
PyObject* DispatchKeysOf(PyObject* module, PyObject* tensor);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_TENSOR_CHECK_H_
