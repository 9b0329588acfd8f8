// SPDX-License-Identifier: Apache-2.0
#include "state_check.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/InferenceMode.h>

namespace tensord::native {

Py_ssize_t ThreadState() {
  Py_ssize_t state = c10::InferenceMode::is_enabled() ? 1 : 0;
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) state += 2;
  if (at::functorch::maybeCurrentDynamicLayer().has_value()) state += 4;
  return state + 8 * static_cast<Py_ssize_t>(at::impl::PythonTorchFunctionTLS::stack_len());
}

PyObject* ThreadStateOf(PyObject*, PyObject*) { return PyLong_FromSsize_t(ThreadState()); }

}  // namespace tensord::native
