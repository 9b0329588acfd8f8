// SPDX-License-Identifier: Apache-2.0
// The guards of a frame, checked against its arguments (frame.proto):
//
//   GuardTree(globals: dict)                                    of the frame's function
//   tree.add_source(step: int, base: int, argument) -> int      guard_sources.h; base: -1 for none
//   tree.add_check(check: int, source: int, argument, text)     guard_checks.h
//   tree(locals: dict) -> bool                                  whether all checks hold
//   tree.failure(locals: dict) -> str or None                   the first that does not, in words
//   tree.failed(locals: dict) -> (str, ((int, object), ...)) or None
//                                the same, and the values that it was asked of, by their sources
//   tree.looked_at() -> list of str or None       what the next call like the last looks at again
//   dispatch_keys(tensor) -> int       torch's dispatch keys of the tensor as guards compare them
//   type_version(class) -> int         changes with the class, see guard_checks.h
//   thread_state() -> int              see state_check.h
//
// Sources are found in the order in which they were added, each followed by its own checks, so that
// a check of a type comes before an attribute is read of what it holds for. What raises does not
// hold. What held is remembered (guard_memo.h), so that an unchanged module costs little.
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "guard_tree.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guard_checks.h"
#include "guard_memo.h"
#include "guard_sources.h"
#include "reference.h"
#include "tensor_check.h"

namespace tensord::native {
namespace {

// The sources and checks of a frame. Finding and checking leave no exception set.
class GuardTree {
 public:
  explicit GuardTree(PyObject* globals) : globals_(Reference::To(globals)) {}

  int AddSource(Step step, int base, PyObject* argument) {
    SourceNode node{step, base, Reference::To(argument)};
    if (PyLong_CheckExact(argument)) node.number = PyLong_AsSsize_t(argument);
    memos_.clear();
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
    if (check == kIsOfClass || check == kIsClass || check == kIsAccepted) {
      node.accepted = PlaceOf(argument);
    }
    const bool waits = check == kAreDistinct || check == kHolds || check == kIsSameAs;
    memos_.clear();
    checks_.push_back(std::move(node));
    (waits || source < 0 ? last_ : checks_of_[static_cast<size_t>(source)])
        .push_back(static_cast<int>(checks_.size()) - 1);
    return true;
  }

  int sources() const { return static_cast<int>(sources_.size()); }

  // What does not hold, in words, and of which values, by their sources.
  struct Failure {
    std::string text;
    std::vector<std::pair<int, Reference>> values;
  };

  // Whether all holds; else what does not, where `failure` is not null.
  bool Holds(PyObject* locals, Failure* failure) {
    // A check that runs Python may come back here, for another call.
    std::vector<Reference> values = std::exchange(values_, {});
    values.resize(sources_.size());
    bool holds = false;
    try {
      holds = failure == nullptr ? HoldsAsBefore(locals, values)
                                 : Holds(locals, values, failure, nullptr);
    } catch (const std::exception& error) {  // of torch, whose tensors may say no sizes
      PyErr_Clear();
      if (failure != nullptr) failure->text = error.what();
    }
    // They are let go of now, while their memory is kept for the next call.
    for (Reference& value : values) value = Reference();
    values_ = std::move(values);
    return holds;
  }

  // What the next call looks at although it is as the last one, in words; null: at everything.
  PyObject* LookedAt() const {
    if (memos_.empty()) Py_RETURN_NONE;
    std::vector<std::string> texts;
    for (const int check : memos_.front()->tensor_checks()) {
      texts.push_back(checks_[static_cast<size_t>(check)].text);
    }
    for (const GuardMemo::Step& step : memos_.front()->steps()) {
      texts.push_back(step.find ? "source " + std::to_string(step.number)
                                : checks_[static_cast<size_t>(step.number)].text);
    }
    Reference list(PyList_New(0));
    for (const std::string& text : texts) {
      const Reference item(
          PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
      if (!list || !item || PyList_Append(list.get(), item.get()) != 0) return nullptr;
    }
    return Py_XNewRef(list.get());
  }

  int Visit(visitproc visit, void* arg) const {
    Py_VISIT(globals_.get());
    for (const SourceNode& source : sources_) Py_VISIT(source.argument.get());
    for (const CheckNode& check : checks_) Py_VISIT(check.argument.get());
    for (const Accepted& one : accepted_) {
      Py_VISIT(one.callable.get());
      Py_VISIT(one.object.get());
    }
    for (const auto& memo : memos_) {
      if (const int stop = memo->Visit(visit, arg)) return stop;
    }
    return 0;
  }

  void Clear() {
    checks_.clear();
    sources_.clear();
    checks_of_.clear();
    last_.clear();
    accepted_.clear();
    memos_.clear();
    globals_ = Reference();
  }

 private:
  // Of what the callable has accepted.
  size_t PlaceOf(PyObject* callable) {
    for (size_t i = 0; i < accepted_.size(); ++i) {
      if (accepted_[i].callable.get() == callable) return i;
    }
    accepted_.push_back({Reference::To(callable)});
    return accepted_.size() - 1;
  }

  // False with an exception set.
  bool TakesArgument(Check check, PyObject* argument) const {
    bool right = true;
    if (check == kHasLength || check == kIsSameAs || check == kHasLeft || check == kHasState) {
      right = PyLong_CheckExact(argument);
    }
    if (check == kIsOfClass || check == kIsClass || check == kIsAccepted) {
      right = PyCallable_Check(argument) == 1;
    }
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

  // By a memo where one is of this very call, else from the beginning.
  bool HoldsAsBefore(PyObject* locals, std::vector<Reference>& values) {
    for (size_t i = 0; i < memos_.size(); ++i) {
      const std::shared_ptr<const GuardMemo> memo = memos_[i];  // a check may come back here
      if (!HasRoots(*memo, locals, values)) continue;
      const TensorChecks::Answer tensors =
          memo->FactsHold() ? memo->tensors().Ask() : TensorChecks::kUnknown;
      if (tensors == TensorChecks::kUnknown) {
        memos_.erase(memos_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
      std::rotate(memos_.begin(), memos_.begin() + static_cast<std::ptrdiff_t>(i),
                  memos_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      patience_ = 0;
      return tensors == TensorChecks::kAllHold && HoldsBeside(*memo, locals, values);
    }
    if (to_wait_ > 0) {
      --to_wait_;
      return Holds(locals, values, nullptr, nullptr);
    }
    const auto memo = std::make_shared<GuardMemo>(sources_.size());
    if (!Holds(locals, values, nullptr, memo.get())) return false;
    memo->Finish(sources_, checks_, values);
    if (memos_.size() == kMemos) memos_.pop_back();
    memos_.insert(memos_.begin(), memo);
    // What changes with each call is remembered in vain.
    to_wait_ = patience_;
    patience_ = std::min(2 * patience_ + 1, kMostPatience);
    return true;
  }

  bool HasRoots(const GuardMemo& memo, PyObject* locals, std::vector<Reference>& values) {
    for (const GuardMemo::Value& root : memo.roots()) {
      const auto number = static_cast<size_t>(root.source);
      values[number] = FindSource(sources_[number], nullptr, locals, globals_.get());
      if (values[number].get() == root.object) continue;
      PyErr_Clear();
      return false;
    }
    return true;
  }

  // What is left to be looked at where the memo's facts hold.
  bool HoldsBeside(const GuardMemo& memo, PyObject* locals, std::vector<Reference>& values) {
    // All of it before the first step, which may run Python and change what they lie in.
    for (const GuardMemo::Value& value : memo.needed()) {
      values[static_cast<size_t>(value.source)] = Reference::To(value.object);
    }
    for (const GuardMemo::Step& step : memo.steps()) {
      const auto number = static_cast<size_t>(step.number);
      if (step.find ? !Find(number, locals, values, nullptr)
                    : !Try(checks_[number], values, nullptr)) {
        return false;
      }
    }
    return true;
  }

  PyObject* BaseOf(const SourceNode& source, const std::vector<Reference>& values) const {
    return source.base < 0 ? nullptr : values[static_cast<size_t>(source.base)].get();
  }

  bool Find(size_t i, PyObject* locals, std::vector<Reference>& values, Failure* failure) {
    const SourceNode& source = sources_[i];
    values[i] = FindSource(source, BaseOf(source, values), locals, globals_.get());
    if (values[i]) return true;
    PyErr_Clear();
    if (failure != nullptr) failure->text = "source " + std::to_string(i) + " is not there";
    return false;
  }

  // memo: null, or filled.
  bool Holds(PyObject* locals, std::vector<Reference>& values, Failure* failure, GuardMemo* memo) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (memo != nullptr) NoteSource(*memo, i, locals, values);
      if (!Find(i, locals, values, failure)) return false;
      for (const int check : checks_of_[i]) {
        if (!TryAndNote(check, values, failure, memo)) return false;
      }
    }
    for (const int check : last_) {
      if (!TryAndNote(check, values, failure, memo)) return false;
    }
    return true;
  }

  void NoteSource(GuardMemo& memo, size_t i, PyObject* locals,
                  const std::vector<Reference>& values) const {
    const SourceNode& source = sources_[i];
    const bool of_frame = source.step == kLocal || source.step == kGlobal;
    const Reference root =
        of_frame ? FindSource(source, nullptr, locals, globals_.get()) : Reference();
    PyErr_Clear();
    memo.BeforeSource(static_cast<int>(i), source, BaseOf(source, values), root.get());
  }

  bool TryAndNote(int number, const std::vector<Reference>& values, Failure* failure,
                  GuardMemo* memo) {
    const CheckNode& check = checks_[static_cast<size_t>(number)];
    if (memo != nullptr) {
      memo->BeforeCheck(
          number, check,
          check.source < 0 ? nullptr : values[static_cast<size_t>(check.source)].get());
    }
    return Try(check, values, failure);
  }

  bool Try(const CheckNode& check, const std::vector<Reference>& values, Failure* failure) {
    PyObject* value = check.source < 0 ? nullptr : values[static_cast<size_t>(check.source)].get();
    bool holds = native::Holds(check, value, values, accepted_);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      holds = false;
    }
    if (!holds && failure != nullptr) Note(check, values, failure);
    return holds;
  }

  static void Note(const CheckNode& check, const std::vector<Reference>& values, Failure* failure) {
    failure->text = check.text;
    const auto add = [&](int source) {
      PyObject* value = values[static_cast<size_t>(source)].get();
      if (value != nullptr) failure->values.emplace_back(source, Reference::To(value));
    };
    if (check.source >= 0) add(check.source);
    for (const int source : check.sources) add(source);
  }

  Reference globals_;
  std::vector<SourceNode> sources_;
  std::vector<CheckNode> checks_;
  std::vector<std::vector<int>> checks_of_;  // by source
  std::vector<int> last_;                    // of several sources, or of none
  std::vector<Accepted> accepted_;
  std::vector<Reference> values_;  // by source, all null between calls
  // One for each set of objects that calls come with, latest first.
  static constexpr size_t kMemos = 8;
  std::vector<std::shared_ptr<const GuardMemo>> memos_;
  static constexpr int kMostPatience = 1023;
  int patience_ = 0;  // calls to wait after the next memo
  int to_wait_ = 0;
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

// False: all holds, or an exception is set.
bool Fails(PyObject* object, PyObject* locals, GuardTree::Failure* failure) {
  if (PyDict_Check(locals)) return !TreeOf(object).Holds(locals, failure);
  PyErr_SetString(PyExc_TypeError, "a dictionary of the frame's locals is expected");
  return false;
}

PyObject* FailureOf(PyObject* object, PyObject* locals) {
  GuardTree::Failure failure;
  if (!Fails(object, locals, &failure)) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  return PyUnicode_FromStringAndSize(failure.text.data(),
                                     static_cast<Py_ssize_t>(failure.text.size()));
}

PyObject* Failed(PyObject* object, PyObject* locals) {
  GuardTree::Failure failure;
  if (!Fails(object, locals, &failure)) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  const auto count = static_cast<Py_ssize_t>(failure.values.size());
  const Reference values(PyTuple_New(count));
  for (Py_ssize_t i = 0; values && i < count; ++i) {
    const auto& [source, value] = failure.values[static_cast<size_t>(i)];
    PyObject* pair = Py_BuildValue("(iO)", source, value.get());
    if (pair == nullptr) return nullptr;
    PyTuple_SET_ITEM(values.get(), i, pair);
  }
  if (!values) return nullptr;
  return Py_BuildValue("(s#O)", failure.text.data(), static_cast<Py_ssize_t>(failure.text.size()),
                       values.get());
}

PyObject* LookedAt(PyObject* object, PyObject*) { return TreeOf(object).LookedAt(); }

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
  const bool from_frame = (step >= kLocal && step <= kBuiltins) || step == kFunctionMode;
  if (step < kLocal || step >= kSteps || base < -1 || base >= tree.sources() || step == kCell ||
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
  const bool of_none = check == kAreDistinct || check == kHolds || check == kHasState;
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
    {"looked_at", LookedAt, METH_NOARGS, "looked_at(): what is not remembered, in words, or None"},
    {"failure", FailureOf, METH_O, "failure(locals): the first check that does not hold, or None"},
    {"failed", Failed, METH_O, "failed(locals): the same, and the values that it was asked of"},
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
