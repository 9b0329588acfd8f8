// SPDX-License-Identifier: Apache-2.0
// Reads tuples of Python.
#ifndef TENSORD_NATIVE_TUPLES_H_
#define TENSORD_NATIVE_TUPLES_H_

#include <Python.h>

#include <vector>

namespace tensord::native {

// Adds what `read` makes of each item, which sets an exception where it cannot. False with an
// exception set.
template <typename T, typename Read>
bool ReadAll(PyObject* tuple, std::vector<T>* values, Read read) {
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "a tuple is expected");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    values->push_back(read(PyTuple_GET_ITEM(tuple, i)));
  }
  return PyErr_Occurred() == nullptr;
}

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_TUPLES_H_
