// SPDX-License-Identifier: Apache-2.0
// The guards of a frame as a Python callable (guard_tree.cc).
#ifndef TENSORD_NATIVE_GUARD_TREE_H_
#define TENSORD_NATIVE_GUARD_TREE_H_

#include <Python.h>

namespace tensord::native {

// _tensord_native.GuardTree, to be made ready.
PyTypeObject MakeGuardTreeType();

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GUARD_TREE_H_
