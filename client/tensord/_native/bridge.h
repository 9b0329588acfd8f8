// SPDX-License-Identifier: Apache-2.0
// What the files of the extension share.
#ifndef TENSORD_NATIVE_BRIDGE_H_
#define TENSORD_NATIVE_BRIDGE_H_

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <optional>
#include <string>

#include "runtime.h"

namespace tensord::native {

// libtensord_runtime's functions, found by init().
struct Runtime {
  decltype(&tensord_program_load) load = nullptr;
  decltype(&tensord_program_release) release = nullptr;
  decltype(&tensord_program_run) run = nullptr;
  decltype(&tensord_program_num_inputs) num_inputs = nullptr;
  decltype(&tensord_program_num_outputs) num_outputs = nullptr;
  decltype(&tensord_program_released_inputs) released_inputs = nullptr;
  decltype(&tensord_program_number) number = nullptr;
  decltype(&tensord_program_workspace) workspace = nullptr;
  decltype(&tensord_lend_workspace) lend_workspace = nullptr;
  decltype(&tensord_last_error) last_error = nullptr;
  decltype(&tensord_set_error) set_error = nullptr;
};
extern Runtime runtime;

// A TensordOperatorFn. `context`: the Python function that runs call-backs, for CallBack. Others
// are a boxed call through torch's dispatcher, below autograd and autocast, with the arguments
// converted by the operator's schema. Runs without the GIL.
int CallOperator(void* context, const TensordOperatorCall* call);

// tensord::call_back(int number, Tensor[] writes, Tensor?[] reads, int[] sizes): calls
// function(number, [*writes, *reads], sizes), which gives a list of tensors and None. Takes the
// GIL. TENSORD_OPERATOR with the exception's text where it raises.
int CallBack(PyObject* function, const TensordOperatorCall& call);

// The result of an operator for kernels, which see its memory alone: what fake tensors do not show,
// such as the conjugate bit of a complex decomposition on a GPU, is computed.
inline at::Tensor Plain(const at::Tensor& tensor) { return tensor.resolve_conj().resolve_neg(); }

// Takes the Python exception that is set, if one is: its text. Takes the GIL.
std::optional<std::string> TakePythonError();

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_BRIDGE_H_
