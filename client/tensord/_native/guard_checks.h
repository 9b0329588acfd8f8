// SPDX-License-Identifier: Apache-2.0
// What a guard asks of a value: FrameGuard's checks as they are left when names are resolved.
#ifndef TENSORD_NATIVE_GUARD_CHECKS_H_
#define TENSORD_NATIVE_GUARD_CHECKS_H_

#include <Python.h>

#include <optional>
#include <string>
#include <vector>

#include "reference.h"
#include "tensor_check.h"

namespace tensord::native {

enum Check {
  kIsType,            // argument: a class
  kIsObject,          // argument: the object
  kEquals,            // argument: a constant
  kHasLength,         // argument: int
  kHasKeys,           // argument: tuple, in order
  kHasKeysUnordered,  // argument: frozenset
  kContains,          // argument: a key
  kLacks,
  kHasAttribute,  // argument: str
  kLacksAttribute,
  kLacksOwn,
  kIsTensor,  // argument: tuple, see TensorFacts
  kIsSameAs,  // argument: int, of a source before
  kIsNotNone,
  kAreDistinct,  // argument: tuple of int
  kHolds,        // argument: (callable, tuple of int): the callable of those sources' values
  kIsNan,
  kIsOfClass,   // argument: callable of the value's class, asked again when the class has changed
  kIsClass,     // argument: callable of the value, a class, asked again when it has changed
  kIsAccepted,  // argument: callable of the value; asked once for an object
  kHasLeft,     // argument: int, of an iterator's items
  kHasState,    // argument: int, see state_check.h
  kChecks
};

// What a callable has said yes to, so that it is asked once. Kept by the tree for all checks with
// that callable.
struct Accepted {
  Reference callable;
  Reference object;
  unsigned int version = 0;  // of a class
};

struct CheckNode {
  Check check;
  int source;
  Reference argument;
  std::string text;
  Py_ssize_t number = 0;
  std::vector<int> sources;
  std::optional<TensorCheck> tensor;
  size_t accepted = 0;  // place in the tree's list
};

// Whether the check holds of the value, null for a check of several sources, whose values are
// `values`. An exception may be set, which says no.
bool Holds(const CheckNode& check, PyObject* value, const std::vector<Reference>& values,
           std::vector<Accepted>& accepted);

// The version of the class's dictionary and of those of its bases: changes with each change of one.
// 0: it cannot be said.
unsigned int VersionOf(PyTypeObject* type);

// type_version(class) -> int.
PyObject* TypeVersion(PyObject* module, PyObject* type);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GUARD_CHECKS_H_
