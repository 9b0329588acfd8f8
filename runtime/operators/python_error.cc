// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/python_error.h"

#include <dlfcn.h>

namespace tensord::runtime {
namespace {

// Of Python's stable interface, in the program that the runtime is loaded into.
struct Python {
  int (*ensure)() = Find<int()>("PyGILState_Ensure");
  void (*release)(int) = Find<void(int)>("PyGILState_Release");
  void (*clear)() = Find<void()>("PyErr_Clear");

 private:
  template <typename Function>
  static Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace

void ClearPythonError() {
  static const Python python;
  if (python.ensure == nullptr || python.release == nullptr || python.clear == nullptr) return;
  const int state = python.ensure();
  python.clear();
  python.release(state);
}

}  // namespace tensord::runtime
