// SPDX-License-Identifier: Apache-2.0
// A compiled program as a Python callable, and what calls one from C++.
#ifndef TENSORD_NATIVE_PROGRAM_H_
#define TENSORD_NATIVE_PROGRAM_H_

#include <Python.h>

#include <array>
#include <memory>

#include "bridge.h"

namespace tensord::native {

struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  TensordProgram* program;
  Py_ssize_t num_inputs;
  Py_ssize_t num_outputs;
  const uint32_t* released;  // inputs that the program drops on its way
  size_t num_released;
  unsigned long long number;  // tensord_program_number
};

// Program's type, to be made ready once.
PyTypeObject* ProgramType();

extern PyObject* make_error;  // message, code -> exception; init() sets it

// Sets the exception for what the runtime last said in this thread. Requires the GIL.
void RaiseLastError(int code);

// A tensor, None or a number as an input, which borrows from `object`; `size` is left as it is.
// False with an exception set.
bool Convert(PyObject* object, TensordValue* value);

// The tensor of an output, whose reference it takes over.
at::Tensor TakeTensor(TensordValue& value);

// An input that the program may drop: a tensor of its own on the same memory. What the program
// leaves of it is the caller's, by TakeTensor.
void GiveTensor(const at::Tensor& tensor, TensordValue* value);
// The program may overwrite what it was given if nobody else has its memory. The caller's own
// references are gone.
void Donate(TensordValue* value);
bool IsGiven(const TensordValue& value);

// Room for `count` values, on the stack for the usual few.
template <typename T, size_t Inline>
class Room {
 public:
  explicit Room(size_t count) {
    if (count > Inline) heap_.reset(new T[count]);
    data_ = heap_ ? heap_.get() : inline_.data();
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, Inline> inline_;
  std::unique_ptr<T[]> heap_;
  T* data_;
};

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_PROGRAM_H_
