// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "guard_memo.h"

#include <torch/csrc/Dtype.h>

#include <cstring>

#include "dict_versions.h"

namespace tensord::native {
namespace {

// A constant that cannot be changed, nor be equal to something else later.
bool IsConstant(PyObject* value) {
  if (value == Py_None || value == Py_Ellipsis || THPDtype_Check(value)) return true;
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!IsConstant(PyTuple_GET_ITEM(value, i))) return false;
    }
    return true;
  }
  return PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
         PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) || PyComplex_CheckExact(value);
}

bool IsPlainKey(PyObject* key) { return PyUnicode_CheckExact(key) || PyLong_CheckExact(key); }

// Where instances of the class are asked for attributes as instances of `like` are.
bool IsAskedLike(PyTypeObject* type, PyTypeObject* like) {
  static PyObject* const name = PyUnicode_InternFromString("__getattribute__");
  return _PyType_Lookup(type, name) == _PyType_Lookup(like, name);
}

PyObject** OwnDictionary(PyObject* object) {
  PyObject** own = _PyObject_GetDictPtr(object);
  return own != nullptr && *own != nullptr && PyDict_Check(*own) ? own : nullptr;
}

bool IsHeapType(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); }

}  // namespace

bool GuardMemo::NoteVersion(PyObject* dictionary) {
  DictVersion version = VersionOfDict(dictionary);
  if (version.place == nullptr) return false;
  if (places_.insert(version.place).second) {
    facts_.push_back({version.place, *version.place});
    if (version.keeps) kept_versions_.push_back(std::move(version.keeps));
  }
  return true;
}

bool GuardMemo::NotePointer(PyObject* const* place) {
  static_assert(sizeof(PyObject*) == sizeof(uint64_t));
  if (places_.insert(place).second) {
    facts_.push_back({place, reinterpret_cast<uint64_t>(*place)});
  }
  return true;
}

// Another dictionary at the same address has another version, so that this one need not be kept.
bool GuardMemo::NoteOwn(PyObject* object) {
  PyObject** own = OwnDictionary(object);
  return own != nullptr && NotePointer(own) && NoteVersion(*own);
}

bool GuardMemo::NoteClass(PyTypeObject* type) {
  const unsigned int version = VersionOf(type);
  if (version == 0) return false;
  if (places_.insert(&type->tp_version_tag).second) {
    classes_.push_back({Reference::To(reinterpret_cast<PyObject*>(type)), version});
  }
  return true;
}

// The class of an instance of a class of C stays: only a module's may be assigned.
bool GuardMemo::NoteType(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!NoteClass(type)) return false;
  if (!IsHeapType(type) && !PyModule_Check(object)) return true;
  return NotePointer(reinterpret_cast<PyObject* const*>(&object->ob_type));
}

bool GuardMemo::NoteAttribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (!IsAskedLike(type, PyModule_CheckExact(object) ? type : &PyBaseObject_Type)) return false;
  if (!NoteType(object) || !NoteOwn(object)) return false;
  PyObject* of_class = _PyType_Lookup(type, name);
  if (of_class == nullptr) {
    // Else __getattr__ is asked, which may say what it likes.
    const int has = PyDict_Contains(*OwnDictionary(object), name);
    PyErr_Clear();
    return has == 1;
  }
  if (Py_TYPE(of_class) == &PyGetSetDescr_Type) {
    return PyUnicode_CompareWithASCIIString(name, "__dict__") == 0;
  }
  return Py_TYPE(of_class)->tp_descr_get == nullptr && !IsHeapType(Py_TYPE(of_class));
}

// What is found from the frame may be another object at the same address; one with a dictionary
// shows that by it.
bool GuardMemo::NoteRoot(PyObject* object) {
  return PyDict_Check(object) ? NoteVersion(object) : NoteOwn(object);
}

bool GuardMemo::Settles(const SourceNode& source, PyObject* base) {
  switch (source.step) {
    case kModule:
    case kBuiltins:
      return true;
    case kAttribute:
      return NoteAttribute(base, source.argument.get());
    case kOwnAttribute: {
      if (!NoteOwn(base)) return false;
      const int has = PyDict_Contains(*OwnDictionary(base), source.argument.get());
      PyErr_Clear();
      return has == 1;
    }
    case kItem:
    case kDictionaryItem:
      if (!IsPlainKey(source.argument.get())) return false;
      if (PyTuple_CheckExact(base)) return true;
      if (!PyDict_CheckExact(base) && Py_TYPE(base) != &PyODict_Type &&
          (source.step == kItem || !PyDict_Check(base))) {
        return false;
      }
      return NoteVersion(base);
    case kKey:
    case kItemOfKey:
      return PyDict_Check(base) && NoteVersion(base);
    case kType:
      return NoteType(base);
    case kTypeDictionary:
      return PyType_Check(base);
    case kMethodOrder:
      return PyType_Check(base) && NoteClass(reinterpret_cast<PyTypeObject*>(base));
    case kCode: {
      if (!PyFunction_Check(base)) return false;
      auto* function = reinterpret_cast<PyFunctionObject*>(base);
      kept_.push_back(Reference::To(function->func_code));  // so that no other has its address
      return NotePointer(&function->func_code);
    }
    default:
      return false;
  }
}

bool GuardMemo::Settles(const CheckNode& check, PyObject* value) {
  switch (check.check) {
    case kIsType:
      return NoteType(value);
    case kIsObject:
    case kIsNotNone:
    case kIsAccepted:  // asked about once as it is
      return true;
    case kEquals:
    case kIsNan:
      return IsConstant(value);
    case kHasLength:
      return PyDict_Check(value) ? NoteVersion(value) : IsConstant(value);
    case kHasKeys:
    case kHasKeysUnordered:
    case kContains:
    case kLacks:
      return PyDict_Check(value) && NoteVersion(value);
    case kLacksOwn:
      return NoteOwn(value);
    case kHasAttribute:
      return PyUnicode_Check(check.argument.get()) && NoteAttribute(value, check.argument.get());
    case kIsOfClass:
      return NoteType(value);
    case kIsClass:
      return PyType_Check(value) && NoteClass(reinterpret_cast<PyTypeObject*>(value));
    default:
      return false;
  }
}

void GuardMemo::BeforeSource(int number, const SourceNode& source, PyObject* base, PyObject* root) {
  bool settles = false;
  if (source.step == kLocal || source.step == kGlobal) {
    settles = root != nullptr && NoteRoot(root);
    if (settles) roots_.push_back({number, root});
  } else if (source.base < 0 || settled_[static_cast<size_t>(source.base)]) {
    settles = Settles(source, base);
  }
  settled_[static_cast<size_t>(number)] = settles;
  if (!settles) steps_.push_back({true, number});
}

void GuardMemo::BeforeCheck(int number, const CheckNode& check, PyObject* value) {
  bool settles = false;
  if (check.check == kAreDistinct) {
    settles = true;
    for (const int source : check.sources)
      settles = settles && settled_[static_cast<size_t>(source)];
  } else if (check.source >= 0 && settled_[static_cast<size_t>(check.source)]) {
    if (check.check == kIsTensor && tensors_->Add(*check.tensor, value)) {
      tensor_checks_.push_back(number);
      return;
    }
    settles = check.check == kIsSameAs
                  ? static_cast<bool>(settled_[static_cast<size_t>(check.number)])
                  : Settles(check, value);
  }
  if (!settles) steps_.push_back({false, number});
}

void GuardMemo::Finish(const std::vector<SourceNode>& sources, const std::vector<CheckNode>& checks,
                       const std::vector<Reference>& values) {
  std::vector<bool> is_needed(sources.size(), false);
  const auto need = [&](int source) {
    if (source < 0 || !settled_[static_cast<size_t>(source)]) return;
    if (is_needed[static_cast<size_t>(source)]) return;
    is_needed[static_cast<size_t>(source)] = true;
    needed_.push_back({source, values[static_cast<size_t>(source)].get()});
  };
  for (const Step& step : steps_) {
    if (step.find) {
      need(sources[static_cast<size_t>(step.number)].base);
      continue;
    }
    const CheckNode& check = checks[static_cast<size_t>(step.number)];
    need(check.source);
    if (check.check == kIsSameAs) need(static_cast<int>(check.number));
    for (const int source : check.sources) need(source);
  }
  places_.clear();
}

bool GuardMemo::FactsHold() const {
  for (const ClassFact& fact : classes_) {
    const auto* type = reinterpret_cast<const PyTypeObject*>(fact.type.get());
    if (type->tp_version_tag != fact.version) return false;
#if PY_VERSION_HEX < 0x030C0000
    if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return false;
#endif
  }
  for (const Fact& fact : facts_) {
    uint64_t value;
    std::memcpy(&value, fact.place, sizeof(value));
    if (value != fact.value) return false;
  }
  return true;
}

int GuardMemo::Visit(visitproc visit, void* arg) const {
  for (const ClassFact& fact : classes_) Py_VISIT(fact.type.get());
  for (const Reference& one : kept_) Py_VISIT(one.get());
  return 0;
}

}  // namespace tensord::native
