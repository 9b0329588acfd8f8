// SPDX-License-Identifier: Apache-2.0
// What is known of a frame's guards once all of them held: numbers of dictionaries, pointers and
// versions of classes that are as they were, so that most sources have the values that they had and
// most checks need not be made again. Tensors are compared in a loop of their own, without
// references, as nothing runs meanwhile that could let go of them; those of a subclass are not
// among them.
//
// A source is *settled* where its value is the same object for as long as those facts hold: an
// attribute in an instance's own dictionary, an item of a dictionary or a tuple, a class. A check
// is settled where its answer cannot change for a settled source: of what cannot be changed, or of
// a dictionary whose number is among the facts. All else (tensors, lists, properties, defaults of
// functions, the process's state) is looked at each time.
//
// Facts are read before the values that they vouch for, so that what changes in between shows. They
// are verified in the order in which they were noted, parents before children: each lies in an
// object that the facts before it keep alive.
#ifndef TENSORD_NATIVE_GUARD_MEMO_H_
#define TENSORD_NATIVE_GUARD_MEMO_H_

#include <Python.h>

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "guard_checks.h"
#include "guard_sources.h"
#include "reference.h"

namespace tensord::native {

class GuardMemo {
 public:
  struct Value {
    int source;
    PyObject* object;  // kept alive by what the facts vouch for
  };
  struct Step {
    bool find;  // the source of this number, else make the check
    int number;
  };

  // ---- Filled along one check of all guards, source by source.

  explicit GuardMemo(size_t sources) : settled_(sources, false) {}

  // Before the source is found, whose base has the value `base`. Null locals' and globals' sources
  // have no base; `root` is what they are found to be, borrowed.
  void BeforeSource(int number, const SourceNode& source, PyObject* base, PyObject* root);
  // Before the check of `value`, null for one of several sources.
  void BeforeCheck(int number, const CheckNode& check, PyObject* value);
  // When all held. values: by source.
  void Finish(const std::vector<SourceNode>& sources, const std::vector<CheckNode>& checks,
              const std::vector<Reference>& values);

  // ---- Used: where the roots are those objects and the facts hold, the needed sources have those
  // values, and the steps decide.

  const std::vector<Value>& roots() const { return roots_; }
  bool FactsHold() const;
  // Of settled sources, whose check is all that is asked of them: behind the facts, before all
  // else.
  TensorChecks& tensors() const { return *tensors_; }
  const std::vector<Value>& needed() const { return needed_; }
  const std::vector<Step>& steps() const { return steps_; }
  // The numbers of the checks that `tensors` makes.
  const std::vector<int>& tensor_checks() const { return tensor_checks_; }

  int Visit(visitproc visit, void* arg) const;

 private:
  struct Fact {
    const void* place;
    uint64_t value;  // eight bytes there
  };
  struct ClassFact {
    Reference type;
    unsigned int version;
  };

  // Each notes facts, and is false where they cannot be had.
  bool NoteVersion(PyObject* dictionary);
  bool NotePointer(PyObject* const* place);
  bool NoteOwn(PyObject* object);   // its own dictionary
  bool NoteType(PyObject* object);  // its class, and what that is
  bool NoteClass(PyTypeObject* type);
  bool NoteAttribute(PyObject* object, PyObject* name);
  bool NoteRoot(PyObject* object);
  bool Settles(const SourceNode& source, PyObject* base);
  bool Settles(const CheckNode& check, PyObject* value);

  std::vector<bool> settled_;  // by source
  std::vector<Fact> facts_;
  std::unordered_set<const void*> places_;
  std::vector<ClassFact> classes_;
  std::vector<Reference> kept_;  // what pointers among the facts lead to
  std::vector<std::shared_ptr<const uint64_t>> kept_versions_;
  std::vector<Value> roots_, needed_;
  const std::unique_ptr<TensorChecks> tensors_ = std::make_unique<TensorChecks>();
  std::vector<int> tensor_checks_;
  std::vector<Step> steps_;
};

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GUARD_MEMO_H_
