// SPDX-License-Identifier: Apache-2.0
// A reference to a Python object that goes with its holder, who has the GIL.
#ifndef TENSORD_NATIVE_REFERENCE_H_
#define TENSORD_NATIVE_REFERENCE_H_

#include <Python.h>

#include <utility>

namespace tensord::native {

class Reference {
 public:
  Reference() = default;
  explicit Reference(PyObject* owned) : object_(owned) {}
  static Reference To(PyObject* borrowed) { return Reference(Py_XNewRef(borrowed)); }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_REFERENCE_H_
