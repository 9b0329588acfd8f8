// SPDX-License-Identifier: Apache-2.0
// What calls of torch's stable interface leave behind in the job's Python.
#ifndef TENSORD_RUNTIME_OPERATORS_PYTHON_ERROR_H_
#define TENSORD_RUNTIME_OPERATORS_PYTHON_ERROR_H_

namespace tensord::runtime {

// Clears the exception that is set in this thread. Under a mode of torch's (__torch_dispatch__)
// operators are called from Python; where one raises, the stable interface gives a code and leaves
// the exception set, with which no Python code may be entered. Nothing where there is no Python.
void ClearPythonError();

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_OPERATORS_PYTHON_ERROR_H_
