// SPDX-License-Identifier: Apache-2.0
// The guards of a frame, checked against its arguments (frame.proto):
//
//   GuardTree(globals: dict)                                    of the frame's function
//   tree.add_source(step: int, base: int, argument) -> int      FrameSource; base: -1 for none
//   tree.add_check(check: int, source: int, argument, text)     a Check below
//   tree(locals: dict) -> bool                                  whether all checks hold
//   tree.failure(locals: dict) -> str or None                   the first that does not, in words
//   dispatch_keys(tensor) -> int       torch's dispatch keys of the tensor as guards compare them
//
// Sources are found in the order in which they were added, each followed by its own checks, so that
// a check of a type comes before an attribute is read of what it holds for. What raises does not
// hold.
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "guard_tree.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference.h"
#include "tensor_check.h"

namespace tensord::native {
namespace {

// FrameSource.Step.
enum Step {
  kLocal = 1,
  kGlobal,
  kModule,
  kBuiltins,
  kAttribute,
  kOwnAttribute,
  kItem,
  kDictionaryItem,
  kKey,
  kItemOfKey,
  kType,
  kTypeDictionary,
  kMethodOrder,
  kCode,
  kClosure,
  kDefault,
  kKeywordDefault,
  kSize,
  kStride,
  kStorageOffset,
  kGradient,
  kCall,
  kSteps
};

// The numbers of FrameGuard's checks that are left when names are resolved.
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
  kChecks
};

struct SourceNode {
  Step step;
  int base;  // or -1
  Reference argument;
  Py_ssize_t number = 0;
};

struct CheckNode {
  Check check;
  int source;
  Reference argument;
  std::string text;
  Py_ssize_t number = 0;
  std::vector<int> sources;
  std::optional<TensorCheck> tensor;
};

Reference AtPlace(PyObject* dictionary, Py_ssize_t number, bool key) {
  if (!PyDict_Check(dictionary)) return {};
  Py_ssize_t at = 0;
  PyObject *k = nullptr, *v = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(dictionary, &at, &k, &v); ++i) {
    if (i == number) return Reference::To(key ? k : v);
  }
  return {};
}

Reference ItemOf(PyObject* object, const char* attribute, Py_ssize_t number) {
  const Reference items(PyObject_GetAttrString(object, attribute));
  if (!items || !PyTuple_Check(items.get()) || number < 0 ||
      number >= PyTuple_GET_SIZE(items.get())) {
    return {};
  }
  return Reference::To(PyTuple_GET_ITEM(items.get(), number));
}

Reference NumberOf(PyObject* object, Step step, Py_ssize_t number) {
  if (!THPVariable_Check(object)) return {};
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (step == kStorageOffset) return Reference(PyLong_FromLongLong(tensor.storage_offset()));
  if (number < 0 || number >= tensor.dim()) return {};
  return Reference(
      PyLong_FromLongLong(step == kSize ? tensor.size(number) : tensor.stride(number)));
}

// The sources and checks of a frame. Finding and checking leave no exception set.
class GuardTree {
 public:
  explicit GuardTree(PyObject* globals) : globals_(Reference::To(globals)) {}

  int AddSource(Step step, int base, PyObject* argument) {
    SourceNode node{step, base, Reference::To(argument)};
    if (PyLong_CheckExact(argument)) node.number = PyLong_AsSsize_t(argument);
    sources_.push_back(std::move(node));
    checks_of_.emplace_back();
    return static_cast<int>(sources_.size()) - 1;
  }

  // False with an exception set.
  bool AddCheck(Check check, int source, PyObject* argument, std::string text) {
    CheckNode node{check, source, Reference::To(argument), std::move(text)};
    if (PyLong_CheckExact(argument)) node.number = PyLong_AsSsize_t(argument);
    if (!TakesArgument(check, argument)) return false;
    PyObject* numbers = check == kAreDistinct ? argument : nullptr;
    if (check == kHolds) numbers = PyTuple_GET_ITEM(argument, 1);
    if (numbers != nullptr && !ReadSources(numbers, &node.sources)) return false;
    if (check == kIsTensor) {
      node.tensor = ReadTensorCheck(argument);
      if (!node.tensor) return false;
    }
    if (PyErr_Occurred() != nullptr) return false;
    const bool waits = check == kAreDistinct || check == kHolds || check == kIsSameAs;
    checks_.push_back(std::move(node));
    (waits || source < 0 ? last_ : checks_of_[static_cast<size_t>(source)])
        .push_back(static_cast<int>(checks_.size()) - 1);
    return true;
  }

  int sources() const { return static_cast<int>(sources_.size()); }

  // Whether all holds; else what does not, in words, where `failure` is not null.
  bool Holds(PyObject* locals, std::string* failure) {
    std::vector<Reference> values(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i) {
      const SourceNode& source = sources_[i];
      PyObject* base = source.base < 0 ? nullptr : values[static_cast<size_t>(source.base)].get();
      values[i] = Find(source, base, locals);
      if (!values[i]) {
        PyErr_Clear();
        if (failure != nullptr) *failure = "source " + std::to_string(i) + " is not there";
        return false;
      }
      for (const int check : checks_of_[i]) {
        if (!Try(checks_[static_cast<size_t>(check)], values, failure)) return false;
      }
    }
    for (const int check : last_) {
      if (!Try(checks_[static_cast<size_t>(check)], values, failure)) return false;
    }
    return true;
  }

  int Visit(visitproc visit, void* arg) const {
    Py_VISIT(globals_.get());
    for (const SourceNode& source : sources_) Py_VISIT(source.argument.get());
    for (const CheckNode& check : checks_) Py_VISIT(check.argument.get());
    return 0;
  }

  void Clear() {
    checks_.clear();
    sources_.clear();
    checks_of_.clear();
    last_.clear();
    globals_ = Reference();
  }

 private:
  // False with an exception set.
  bool TakesArgument(Check check, PyObject* argument) const {
    bool right = true;
    if (check == kHasLength || check == kIsSameAs) right = PyLong_CheckExact(argument);
    if (check == kHasKeys || check == kAreDistinct || check == kIsTensor) {
      right = PyTuple_CheckExact(argument);
    }
    if (check == kHasKeysUnordered) right = PyFrozenSet_CheckExact(argument);
    if (check == kHolds) right = PyTuple_CheckExact(argument) && PyTuple_GET_SIZE(argument) == 2;
    if (check == kIsSameAs && right) {
      const Py_ssize_t other = PyLong_AsSsize_t(argument);
      right = other >= 0 && other < sources();
    }
    if (!right) PyErr_Format(PyExc_ValueError, "check %d takes another argument", check);
    return right;
  }

  bool ReadSources(PyObject* numbers, std::vector<int>* sources) {
    if (!PyTuple_Check(numbers)) {
      PyErr_SetString(PyExc_TypeError, "a tuple of numbers of sources is expected");
      return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); ++i) {
      const long number = PyLong_AsLong(PyTuple_GET_ITEM(numbers, i));
      if (PyErr_Occurred() != nullptr) return false;
      if (number < 0 || number >= this->sources()) {
        PyErr_Format(PyExc_ValueError, "there is no source %ld", number);
        return false;
      }
      sources->push_back(static_cast<int>(number));
    }
    return true;
  }

  // Null where there is nothing; an exception may be set.
  Reference Find(const SourceNode& source, PyObject* base, PyObject* locals) const {
    PyObject* argument = source.argument.get();
    switch (source.step) {
      case kLocal:
        return Reference::To(PyDict_GetItemWithError(locals, argument));
      case kGlobal:
        return Reference::To(PyDict_GetItemWithError(globals_.get(), argument));
      case kModule:
      case kBuiltins:
        return Reference::To(argument);
      case kAttribute:
        return Reference(PyObject_GetAttr(base, argument));
      case kOwnAttribute:
        return Reference(PyObject_GenericGetAttr(base, argument));
      case kItem:
        return Reference(PyObject_GetItem(base, argument));
      case kDictionaryItem:
        if (PyDict_Check(base)) return Reference::To(PyDict_GetItemWithError(base, argument));
        return Reference(PyObject_GetItem(base, argument));
      case kKey:
      case kItemOfKey:
        return AtPlace(base, source.number, source.step == kKey);
      case kType:
        return Reference::To(reinterpret_cast<PyObject*>(Py_TYPE(base)));
      case kTypeDictionary:
        return Reference(PyObject_GetAttrString(base, "__dict__"));
      case kMethodOrder:
        if (!PyType_Check(base)) return {};
        return Reference::To(reinterpret_cast<PyTypeObject*>(base)->tp_mro);
      case kCode:
        return Reference(PyObject_GetAttrString(base, "__code__"));
      case kClosure:
        return Reference(PyObject_GetAttrString(base, "__closure__"));
      case kDefault:
        return ItemOf(base, "__defaults__", source.number);
      case kKeywordDefault: {
        const Reference defaults(PyObject_GetAttrString(base, "__kwdefaults__"));
        if (!defaults || !PyDict_Check(defaults.get())) return {};
        return Reference::To(PyDict_GetItemWithError(defaults.get(), argument));
      }
      case kSize:
      case kStride:
      case kStorageOffset:
        return NumberOf(base, source.step, source.number);
      case kGradient:
        return Reference(PyObject_GetAttrString(base, "grad"));
      case kCall:
        return Reference(PyObject_CallNoArgs(base));
      case kSteps:
        break;
    }
    return {};
  }

  bool Try(const CheckNode& check, const std::vector<Reference>& values, std::string* failure) {
    PyObject* value = check.source < 0 ? nullptr : values[static_cast<size_t>(check.source)].get();
    const bool holds = Holds(check, value, values) && PyErr_Occurred() == nullptr;
    PyErr_Clear();
    if (!holds && failure != nullptr) *failure = check.text;
    return holds;
  }

  static bool HasKeysInOrder(PyObject* dictionary, PyObject* keys) {
    if (!PyDict_Check(dictionary) || PyDict_GET_SIZE(dictionary) != PyTuple_GET_SIZE(keys)) {
      return false;
    }
    Py_ssize_t at = 0;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t i = 0; PyDict_Next(dictionary, &at, &key, &value); ++i) {
      PyObject* expected = PyTuple_GET_ITEM(keys, i);
      if (key == expected) continue;
      const Reference held = Reference::To(key);
      if (Py_TYPE(key) != Py_TYPE(expected) ||
          PyObject_RichCompareBool(key, expected, Py_EQ) != 1) {
        return false;
      }
    }
    return true;
  }

  static bool HasKeys(PyObject* dictionary, PyObject* keys) {
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

  static bool AreDistinct(const std::vector<int>& sources, const std::vector<Reference>& values) {
    std::vector<PyObject*> objects;
    for (const int source : sources) objects.push_back(values[static_cast<size_t>(source)].get());
    std::sort(objects.begin(), objects.end());
    return std::adjacent_find(objects.begin(), objects.end()) == objects.end();
  }

  static bool Calls(const CheckNode& check, const std::vector<Reference>& values) {
    std::vector<PyObject*> arguments;
    for (const int source : check.sources) {
      arguments.push_back(values[static_cast<size_t>(source)].get());
    }
    const Reference result(PyObject_Vectorcall(PyTuple_GET_ITEM(check.argument.get(), 0),
                                               arguments.data(), arguments.size(), nullptr));
    return result && PyObject_IsTrue(result.get()) == 1;
  }

  static Py_ssize_t Length(PyObject* value) {
    return PyDict_Check(value) ? PyDict_GET_SIZE(value) : PyObject_Length(value);
  }

  bool Holds(const CheckNode& check, PyObject* value, const std::vector<Reference>& values) const {
    PyObject* argument = check.argument.get();
    switch (check.check) {
      case kIsType:
        return reinterpret_cast<PyObject*>(Py_TYPE(value)) == argument;
      case kIsObject:
        return value == argument;
      case kEquals:
        return Py_TYPE(value) == Py_TYPE(argument) &&
               (PyObject_RichCompareBool(value, argument, Py_EQ) == 1);
      case kHasLength:
        return Length(value) == check.number;
      case kHasKeys:
        return HasKeysInOrder(value, argument);
      case kHasKeysUnordered:
        return HasKeys(value, argument);
      case kContains:
        return PySequence_Contains(value, argument) == 1;
      case kLacks:
        return PySequence_Contains(value, argument) == 0;
      case kHasAttribute:
        return PyObject_HasAttr(value, argument) == 1;
      case kLacksAttribute:
        return PyObject_HasAttr(value, argument) == 0;
      case kLacksOwn: {
        PyObject** own = _PyObject_GetDictPtr(value);
        if (own == nullptr || *own == nullptr) {
          const Reference dictionary(PyObject_GenericGetDict(value, nullptr));
          return dictionary && PySequence_Contains(dictionary.get(), argument) == 0;
        }
        return PyDict_Contains(*own, argument) == 0;
      }
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
      case kChecks:
        break;
    }
    return false;
  }

  Reference globals_;
  std::vector<SourceNode> sources_;
  std::vector<CheckNode> checks_;
  std::vector<std::vector<int>> checks_of_;  // by source
  std::vector<int> last_;                    // of several sources, or of none
};

struct TreeObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  GuardTree* tree;
};

GuardTree& TreeOf(PyObject* object) { return *reinterpret_cast<TreeObject*>(object)->tree; }

PyObject* CallTree(PyObject* object, PyObject* const* args, size_t flags, PyObject*) {
  if (PyVectorcall_NARGS(flags) != 1 || !PyDict_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "a dictionary of the frame's locals is expected");
    return nullptr;
  }
  return PyBool_FromLong(TreeOf(object).Holds(args[0], nullptr) ? 1 : 0);
}

PyObject* Failure(PyObject* object, PyObject* locals) {
  if (!PyDict_Check(locals)) {
    PyErr_SetString(PyExc_TypeError, "a dictionary of the frame's locals is expected");
    return nullptr;
  }
  std::string failure;
  if (TreeOf(object).Holds(locals, &failure)) Py_RETURN_NONE;
  return PyUnicode_FromStringAndSize(failure.data(), static_cast<Py_ssize_t>(failure.size()));
}

PyObject* NewTree(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* globals = nullptr;
  if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &globals)) return nullptr;
  auto* self = reinterpret_cast<TreeObject*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = CallTree;
  self->tree = new GuardTree(globals);
  return reinterpret_cast<PyObject*>(self);
}

PyObject* AddSource(PyObject* object, PyObject* args) {
  int step = 0, base = 0;
  PyObject* argument = nullptr;
  if (!PyArg_ParseTuple(args, "iiO", &step, &base, &argument)) return nullptr;
  GuardTree& tree = TreeOf(object);
  const bool from_frame = step >= kLocal && step <= kBuiltins;
  if (step < kLocal || step >= kSteps || base < -1 || base >= tree.sources() ||
      (base < 0) != from_frame) {
    return PyErr_Format(PyExc_ValueError, "no source is a step %d from source %d", step, base);
  }
  return PyLong_FromLong(tree.AddSource(static_cast<Step>(step), base, argument));
}

PyObject* AddCheck(PyObject* object, PyObject* args) {
  int check = 0, source = 0;
  PyObject* argument = nullptr;
  const char* text = nullptr;
  if (!PyArg_ParseTuple(args, "iiOs", &check, &source, &argument, &text)) return nullptr;
  GuardTree& tree = TreeOf(object);
  const bool of_none = check == kAreDistinct || check == kHolds;
  if (check < 0 || check >= kChecks || source < -1 || source >= tree.sources() ||
      (source < 0 && !of_none)) {
    return PyErr_Format(PyExc_ValueError, "there is no check %d of source %d", check, source);
  }
  if (!tree.AddCheck(static_cast<Check>(check), source, argument, text)) return nullptr;
  Py_RETURN_NONE;
}

int VisitTree(PyObject* object, visitproc visit, void* arg) {
  return TreeOf(object).Visit(visit, arg);
}

int ClearTree(PyObject* object) {
  TreeOf(object).Clear();
  return 0;
}

void DeallocateTree(PyObject* object) {
  PyObject_GC_UnTrack(object);
  delete reinterpret_cast<TreeObject*>(object)->tree;
  Py_TYPE(object)->tp_free(object);
}

PyMethodDef tree_methods[] = {
    {"add_source", AddSource, METH_VARARGS, "add_source(step, base, argument) -> its number"},
    {"add_check", AddCheck, METH_VARARGS, "add_check(check, source, argument, text)"},
    {"failure", Failure, METH_O, "failure(locals): the first check that does not hold, or None"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject MakeGuardTreeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "_tensord_native.GuardTree";
  type.tp_doc = "The guards of a frame.";
  type.tp_basicsize = sizeof(TreeObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  type.tp_vectorcall_offset = offsetof(TreeObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_new = NewTree;
  type.tp_dealloc = DeallocateTree;
  type.tp_traverse = VisitTree;
  type.tp_clear = ClearTree;
  type.tp_methods = tree_methods;
  return type;
}

}  // namespace tensord::native
