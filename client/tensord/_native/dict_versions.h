// SPDX-License-Identifier: Apache-2.0
// Numbers that change with each change of a dictionary. Up to Python 3.11 each dictionary has one
// (PEP 509); from 3.12 one is kept for each dictionary that is watched (PyDict_Watch). No number is
// ever used twice, so that another dictionary in the place of one that has gone has another.
#ifndef TENSORD_NATIVE_DICT_VERSIONS_H_
#define TENSORD_NATIVE_DICT_VERSIONS_H_

#include <Python.h>

#include <cstdint>
#include <memory>

namespace tensord::native {

// Where the number of a dictionary lies.
struct DictVersion {
  const uint64_t* place = nullptr;  // null: it cannot be said when the dictionary changes
  // Keeps the place where that is not in the dictionary, whose life it then outlasts. Without it
  // the place is to be read only while the dictionary is known to live.
  std::shared_ptr<const uint64_t> keeps;
};

// Learns what this Python tells of its dictionaries, by running some of it: once, at the import.
void LearnOfDictVersions();

// Of a dictionary or an instance of a subclass. Requires the GIL; leaves no exception set.
DictVersion VersionOfDict(PyObject* dictionary);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_DICT_VERSIONS_H_
