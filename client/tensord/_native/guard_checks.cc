// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "guard_checks.h"

#include <algorithm>
#include <cmath>

#include "state_check.h"

namespace tensord::native {
namespace {

bool HasKeysInOrder(PyObject* dictionary, PyObject* keys) {
  if (!PyDict_Check(dictionary) || PyDict_GET_SIZE(dictionary) != PyTuple_GET_SIZE(keys)) {
    return false;
  }
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(dictionary, &at, &key, &value); ++i) {
    PyObject* expected = PyTuple_GET_ITEM(keys, i);
    if (key == expected) continue;
    const Reference held = Reference::To(key);
    if (Py_TYPE(key) != Py_TYPE(expected) || PyObject_RichCompareBool(key, expected, Py_EQ) != 1) {
      return false;
    }
  }
  return true;
}

bool HasKeys(PyObject* dictionary, PyObject* keys) {
  if (!PyDict_Check(dictionary) || PyDict_GET_SIZE(dictionary) != PySet_GET_SIZE(keys)) {
    return false;
  }
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dictionary, &at, &key, &value)) {
    const Reference held = Reference::To(key);
    if (PySet_Contains(keys, key) != 1) return false;
  }
  return true;
}

// 1, 0, or -1 with an exception set; not by what a subclass of dict or set makes of it.
int Contains(PyObject* container, PyObject* key) {
  if (PyDict_Check(container)) return PyDict_Contains(container, key);
  if (PyAnySet_Check(container)) return PySet_Contains(container, key);
  return PySequence_Contains(container, key);
}

bool LacksOwn(PyObject* value, PyObject* name) {
  PyObject** own = _PyObject_GetDictPtr(value);
  if (own != nullptr && *own != nullptr) return PyDict_Contains(*own, name) == 0;
  const Reference dictionary(PyObject_GenericGetDict(value, nullptr));
  return dictionary && PySequence_Contains(dictionary.get(), name) == 0;
}

bool AreDistinct(const std::vector<int>& sources, const std::vector<Reference>& values) {
  std::vector<PyObject*> objects;
  for (const int source : sources) objects.push_back(values[static_cast<size_t>(source)].get());
  std::sort(objects.begin(), objects.end());
  return std::adjacent_find(objects.begin(), objects.end()) == objects.end();
}

bool Calls(const CheckNode& check, const std::vector<Reference>& values) {
  std::vector<PyObject*> arguments;
  for (const int source : check.sources) {
    arguments.push_back(values[static_cast<size_t>(source)].get());
  }
  const Reference result(PyObject_Vectorcall(PyTuple_GET_ITEM(check.argument.get(), 0),
                                             arguments.data(), arguments.size(), nullptr));
  return result && PyObject_IsTrue(result.get()) == 1;
}

bool Accepts(PyObject* callable, PyObject* object) {
  const Reference result(PyObject_CallOneArg(callable, object));
  return result && PyObject_IsTrue(result.get()) == 1;
}

bool AcceptsClass(Accepted& accepted, PyObject* object) {
  if (!PyType_Check(object)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  const unsigned int version = VersionOf(type);
  if (version != 0 && accepted.version == version && accepted.object.get() == object) return true;
  if (!Accepts(accepted.callable.get(), object)) return false;
  accepted.object = Reference::To(object);
  // Of before the call: what changed the class meanwhile is asked about again.
  accepted.version = version;
  return true;
}

bool AcceptsObject(Accepted& accepted, PyObject* object) {
  if (accepted.object.get() == object) return true;
  if (!Accepts(accepted.callable.get(), object)) return false;
  accepted.object = Reference::To(object);
  return true;
}

Py_ssize_t Length(PyObject* value) {
  return PyDict_Check(value) ? PyDict_GET_SIZE(value) : PyObject_Length(value);
}

}  // namespace

unsigned int VersionOf(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  if (PyUnstable_Type_AssignVersionTag(type) != 1) return 0;
  return type->tp_version_tag;
#else
  if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) {
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);  // which gives the class a version
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
  }
  return type->tp_version_tag;
#endif
}

PyObject* TypeVersion(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "a class is expected");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(VersionOf(reinterpret_cast<PyTypeObject*>(type)));
}

bool Holds(const CheckNode& check, PyObject* value, const std::vector<Reference>& values,
           std::vector<Accepted>& accepted) {
  PyObject* argument = check.argument.get();
  switch (check.check) {
    case kIsType:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == argument;
    case kIsObject:
      return value == argument;
    case kEquals:
      // Zeros of both signs compare equal, and are not the same constant.
      if (PyFloat_CheckExact(value) && PyFloat_CheckExact(argument)) {
        const double one = PyFloat_AS_DOUBLE(value), other = PyFloat_AS_DOUBLE(argument);
        return one == other && std::signbit(one) == std::signbit(other);
      }
      return Py_TYPE(value) == Py_TYPE(argument) &&
             (PyObject_RichCompareBool(value, argument, Py_EQ) == 1);
    case kHasLength:
      return Length(value) == check.number;
    case kHasKeys:
      return HasKeysInOrder(value, argument);
    case kHasKeysUnordered:
      return HasKeys(value, argument);
    case kContains:
      return Contains(value, argument) == 1;
    case kLacks:
      return Contains(value, argument) == 0;
    case kHasAttribute:
      return PyObject_HasAttr(value, argument) == 1;
    case kLacksAttribute:
      return PyObject_HasAttr(value, argument) == 0;
    case kLacksOwn:
      return LacksOwn(value, argument);
    case kIsTensor:
      return IsTensor(*check.tensor, value);
    case kIsSameAs:
      return value == values[static_cast<size_t>(check.number)].get();
    case kIsNotNone:
      return value != Py_None;
    case kAreDistinct:
      return AreDistinct(check.sources, values);
    case kHolds:
      return Calls(check, values);
    case kIsNan:
      // By the rich comparison itself: the other one takes an object for equal to itself.
      return Reference(PyObject_RichCompare(value, value, Py_NE)).get() == Py_True;
    case kIsOfClass:
      return AcceptsClass(accepted[check.accepted], reinterpret_cast<PyObject*>(Py_TYPE(value)));
    case kIsClass:
      return AcceptsClass(accepted[check.accepted], value);
    case kIsAccepted:
      return AcceptsObject(accepted[check.accepted], value);
    case kHasLeft:
      return Py_TYPE(value) == &PyTupleIter_Type && PyObject_LengthHint(value, -1) == check.number;
    case kHasState:
      return ThreadState() == check.number;
    case kChecks:
      break;
  }
  return false;
}

}  // namespace tensord::native
