// SPDX-License-Identifier: Apache-2.0
// What a guard asks of the thread's state beside what torch's own GlobalStateGuard does.
#ifndef TENSORD_NATIVE_STATE_CHECK_H_
#define TENSORD_NATIVE_STATE_CHECK_H_

#include <Python.h>

namespace tensord::native {

// The thread's state as a number: 1 for inference mode, plus 2 for hooks of saved tensors, plus 4
// for a transform of functorch, plus 8 times the number of modes of torch functions.
Py_ssize_t ThreadState();

// thread_state() -> int.
PyObject* ThreadStateOf(PyObject* module, PyObject* nothing);

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_STATE_CHECK_H_
