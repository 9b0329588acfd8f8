// SPDX-License-Identifier: Apache-2.0
#include "dict_versions.h"

#include <unordered_map>

namespace tensord::native {

#if PY_VERSION_HEX < 0x030C0000

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

// A PyDict_WatchCallback, called before the change.
int Changed(PyDict_WatchEvent event, PyObject* dictionary, PyObject*, PyObject*) {
  const auto found = Watched().find(dictionary);
  if (found == Watched().end()) return 0;
  *found->second = ++last_version;
  if (event == PyDict_EVENT_DEALLOCATED) Watched().erase(found);
  return 0;
}

}  // namespace

DictVersion VersionOfDict(PyObject* dictionary) {
  static const int watcher = PyDict_AddWatcher(Changed);  // -1: an interpreter has eight
  if (watcher < 0 || PyDict_Watch(watcher, dictionary) != 0) {
    PyErr_Clear();
    return {};
  }
  std::shared_ptr<uint64_t>& version = Watched()[dictionary];
  if (version == nullptr) version = std::make_shared<uint64_t>(++last_version);
  return {version.get(), version};
}

#endif

}  // namespace tensord::native
