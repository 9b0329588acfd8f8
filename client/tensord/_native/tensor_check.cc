// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "tensor_check.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Dtype.h>

#include <algorithm>
#include <array>
#include <limits>

namespace tensord::native {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();

// What facts are compared in: read once for all that are compared at a time.
struct ThreadMode {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const bool has_grad = at::GradMode::is_enabled();

  uint64_t DispatchKeys(const at::TensorImpl& tensor) const {
    return ((tensor.key_set() | keys.included_) - keys.excluded_).raw_repr();
  }
};

// Of a tensor of the facts' class.
bool HasFacts(const TensorFacts& facts, const at::TensorImpl& tensor, const ThreadMode& mode) {
  return mode.DispatchKeys(tensor) == facts.dispatch_keys &&
         tensor.dtype().toScalarType() == facts.dtype &&
         tensor.device().index() == facts.device_index &&
         (mode.has_grad && tensor.requires_grad()) == facts.requires_grad;
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

bool IsAnyGiven(const std::vector<std::optional<int64_t>>& numbers) {
  return std::any_of(numbers.begin(), numbers.end(),
                     [](const auto& number) { return number.has_value(); });
}

bool AreEqual(c10::IntArrayRef numbers, const int64_t* expected) {
  for (const int64_t number : numbers) {
    if (*expected != kAny && *expected != number) return false;
    ++expected;
  }
  return true;
}

// A tensor's own attributes; null where it has never had any.
PyObject* AttributesOf(PyObject* object) {
  PyObject** own = _PyObject_GetDictPtr(object);
  return own == nullptr ? nullptr : *own;
}

// The attributes by which a user says that a dimension is dynamic.
const std::array<PyObject*, 5>& MarkNames() {
  static const std::array<PyObject*, 5> names = {
      PyUnicode_InternFromString("_dynamo_dynamic_indices"),
      PyUnicode_InternFromString("_dynamo_weak_dynamic_indices"),
      PyUnicode_InternFromString("_dynamo_unbacked_indices"),
      PyUnicode_InternFromString("_dynamo_strict_unbacked_indices"),
      PyUnicode_InternFromString("_dynamo_static_indices")};
  return names;
}

// Of those that were there, what is there must be a part; of others there must be none.
bool HasItsMarks(PyObject* tensor, const TensorCheck& check) {
  PyObject* own = AttributesOf(tensor);
  if (own == nullptr || PyDict_GET_SIZE(own) == 0) return true;
#if PY_VERSION_HEX < 0x030C0000
  // Of a dictionary that had none and is as it was; no other has had its number.
  const uint64_t version = reinterpret_cast<PyDictObject*>(own)->ma_version_tag;
  if (version == check.unmarked_version) return true;
#endif
  bool any = false;
  for (PyObject* attribute : MarkNames()) {
    PyObject* marked = PyDict_GetItemWithError(own, attribute);
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
  check.facts = {.type = reinterpret_cast<PyTypeObject*>(type),
                 .dispatch_keys = keys,
                 .dtype = reinterpret_cast<THPDtype*>(dtype)->scalar_type,
                 .device_index = static_cast<at::DeviceIndex>(index),
                 .requires_grad = requires_grad != 0};
  check.marks = marks;
  check.has_sizes = sizes != Py_None;
  if (check.has_sizes &&
      (!ReadNumbers(sizes, &check.sizes) || !ReadNumbers(strides, &check.strides))) {
    return std::nullopt;
  }
  return check;
}

bool IsTensor(const TensorCheck& check, PyObject* value) {
  if (Py_TYPE(value) != check.facts.type) return false;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (!HasFacts(check.facts, *tensor.unsafeGetTensorImpl(), {})) return false;
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
  return HasItsMarks(value, check);
}

bool TensorChecks::Add(const TensorCheck& check, PyObject* object) {
  // Of what is neither, not even the class may be asked: a proxy's answer may raise.
  PyTypeObject* const type = check.facts.type;
  if (Py_TYPE(object) != type || !THPVariable_CheckTypeExact(type)) return false;
  One one{.object = object,
          .facts = check.facts,
          .sizes = static_cast<uint32_t>(numbers_.size()),
          .rank = static_cast<uint16_t>(check.sizes.size()),
          .has_sizes = check.has_sizes,
          .any_size = IsAnyGiven(check.sizes),
          .any_stride = IsAnyGiven(check.strides),
          .unmarked = {}};
  if (!NoteUnmarked(one)) return false;
  for (const auto* numbers : {&check.sizes, &check.strides}) {
    for (const std::optional<int64_t>& number : *numbers) {
      numbers_.push_back(number.value_or(kAny));
    }
  }
  all_.push_back(std::move(one));
  return true;
}

bool TensorChecks::IsUnmarked(const One& one) {
  PyObject* own = AttributesOf(one.object);
  if (own != one.unmarked.dictionary) return false;
  return own == nullptr || (one.unmarked.version.place != nullptr &&
                            *one.unmarked.version.place == one.unmarked.number);
}

bool TensorChecks::NoteUnmarked(One& one) {
  one.unmarked = {};
  PyObject* own = AttributesOf(one.object);
  if (own == nullptr) return true;
  Unmarked unmarked{.dictionary = own, .version = VersionOfDict(own), .number = 0};
  // Before the look, so that what changes in between shows.
  if (unmarked.version.place != nullptr) unmarked.number = *unmarked.version.place;
  const Reference kept = Reference::To(own);
  for (PyObject* name : MarkNames()) {
    const int has = PyDict_Contains(own, name);
    PyErr_Clear();
    if (has != 0) return false;
  }
  one.unmarked = std::move(unmarked);
  return true;
}

TensorChecks::Answer TensorChecks::Ask() {
  const ThreadMode mode;
  std::vector<std::pair<One*, Reference>> changed;  // with other attributes than before
  for (One& one : all_) {
    if (Py_TYPE(one.object) != one.facts.type) return kOneDoesNot;
    const at::TensorImpl& tensor = *THPVariable_Unpack(one.object).unsafeGetTensorImpl();
    if (!HasFacts(one.facts, tensor, mode)) return kOneDoesNot;
    if (!IsUnmarked(one)) changed.emplace_back(&one, Reference::To(one.object));
    if (!one.has_sizes) continue;
    const int64_t* sizes = numbers_.data() + one.sizes;
    if (tensor.dim() != one.rank || (one.any_size && !AreEqual(tensor.sizes(), sizes)) ||
        (one.any_stride && !AreEqual(tensor.strides(), sizes + one.rank))) {
      return kOneDoesNot;
    }
  }
  // A dictionary may have keys that Python compares.
  for (const auto& [one, kept] : changed) {
    if (!NoteUnmarked(*one)) return kUnknown;
  }
  return kAllHold;
}

PyObject* DispatchKeysOf(PyObject*, PyObject* object) {
  if (!THPVariable_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "a tensor is expected");
    return nullptr;
  }
  return PyLong_FromUnsignedLongLong(
      ThreadMode().DispatchKeys(*THPVariable_Unpack(object).unsafeGetTensorImpl()));
}

}  // namespace tensord::native
