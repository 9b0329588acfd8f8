// SPDX-License-Identifier: Apache-2.0
#include "dict_versions.h"

#include <unordered_map>
#include <utility>

#include "reference.h"

namespace tensord::native {

#if PY_VERSION_HEX < 0x030C0000

void LearnOfDictVersions() {}

DictVersion VersionOfDict(PyObject* dictionary) {
  return {&reinterpret_cast<PyDictObject*>(dictionary)->ma_version_tag, nullptr};
}

#else

namespace {

using Versions = std::unordered_map<PyObject*, std::shared_ptr<uint64_t> >;

// Of watched dictionaries that live. Never destroyed: Python may end dictionaries after it.
Versions& Watched() {
  static auto* const watched = new Versions;
  return *watched;
}

uint64_t last_version = 0;
bool tells_of_attributes = false;

// A PyDict_WatchCallback, called before the change.
int Changed(PyDict_WatchEvent event, PyObject* dictionary, PyObject*, PyObject*) {
  const auto found = Watched().find(dictionary);
  if (found == Watched().end()) return 0;
  *found->second = ++last_version;
  if (event == PyDict_EVENT_DEALLOCATED) Watched().erase(found);
  return 0;
}

// Nothing where it cannot be watched.
DictVersion Watch(PyObject* dictionary) {
  static const int watcher = PyDict_AddWatcher(Changed);  // -1: an interpreter has eight
  if (watcher < 0 || PyDict_Watch(watcher, dictionary) != 0) {
    PyErr_Clear();
    return {};
  }
  std::shared_ptr<uint64_t>& version = Watched()[dictionary];
  if (version == nullptr) version = std::make_shared<uint64_t>(++last_version);
  return {version.get(), version};
}

// Whether the values of an instance's dictionary lie in the instance.
bool LiesInAnInstance(PyObject* dictionary) {
  return reinterpret_cast<PyDictObject*>(dictionary)->ma_values != nullptr;
}

// Whether this Python tells watchers of a dictionary whose values lie in the instance of attributes
// that are set, added and deleted. 3.13.0 does not.
bool TellsOfAttributes() {
  const Reference names(PyDict_New());
  if (!names) return false;
  const Reference none(PyRun_String("class Any: pass\nit = Any()\nit.a = it.b = 1\n", Py_file_input,
                                    names.get(), names.get()));
  PyObject* instance = none ? PyDict_GetItemString(names.get(), "it") : nullptr;
  const Reference own(instance ? PyObject_GenericGetDict(instance, nullptr) : nullptr);
  if (!own) return false;
  const DictVersion version = Watch(own.get());
  if (version.place == nullptr) return false;
  uint64_t last = *version.place;
  const auto tells = [&](int status) {
    return status == 0 && std::exchange(last, *version.place) != *version.place;
  };
  return tells(PyObject_SetAttrString(instance, "a", Py_None)) &&
         tells(PyObject_DelAttrString(instance, "b")) &&
         tells(PyObject_SetAttrString(instance, "c", Py_None));
}

}  // namespace

void LearnOfDictVersions() {
  tells_of_attributes = TellsOfAttributes();
  PyErr_Clear();
}

DictVersion VersionOfDict(PyObject* dictionary) {
  if (!tells_of_attributes && LiesInAnInstance(dictionary)) return {};
  return Watch(dictionary);
}

#endif

}  // namespace tensord::native
