// SPDX-License-Identifier: Apache-2.0
// Where a guard finds the value that it looks at: FrameSource of frame.proto.
#ifndef TENSORD_NATIVE_GUARD_SOURCES_H_
#define TENSORD_NATIVE_GUARD_SOURCES_H_

#include <Python.h>

#include "reference.h"

namespace tensord::native {

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
  kCall,  // of a weak reference only: a guard runs no other function
  kCell,  // not found from locals
  kItemOfTupleIterator,
  kTensorOf,  // of an array or a number of NumPy; any other value is its own
  kFunctionMode,
  kSteps
};

struct SourceNode {
  Step step;
  int base;  // or -1
  Reference argument;
  Py_ssize_t number = 0;
};

// The value of the source, whose base has the value `base`. Null where there is nothing; an
// exception may be set.
Reference FindSource(const SourceNode& source, PyObject* base, PyObject* locals, PyObject* globals);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GUARD_SOURCES_H_
