// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "loans.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "reference.h"
#include "tuples.h"

namespace tensord::native {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// One of a graph's storages, and its loans. A loan is in use while a tensor or an object of Python
// has it.
struct Lender {
  void* address;
  size_t bytes;
  c10::Device device;
  std::vector<WeakStorage> loans;

  c10::Storage Lend() {
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(address, device));
    loans.emplace_back(storage.getWeakStorageImpl());
    return storage;
  }
  bool IsUsed() const {
    return std::any_of(loans.begin(), loans.end(),
                       [](const WeakStorage& loan) { return !loan.expired(); });
  }
};

struct LoanLayout {
  size_t lender;
  caffe2::TypeMeta dtype;
  std::vector<int64_t> sizes, strides;
  int64_t offset;

  at::Tensor On(c10::Storage storage) const {
    const c10::DispatchKeySet keys(
        c10::computeDispatchKey(std::nullopt, c10::kStrided, storage.device()));
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, dtype);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    return tensor;
  }
};

struct LoansObject {
  PyObject_HEAD std::vector<Lender>* lenders;
  std::vector<LoanLayout>* layouts;
};

// One of the storages; null with an exception set.
Lender* LenderOf(LoansObject* self, PyObject* number) {
  const long long i = PyLong_AsLongLong(number);
  if (i == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (i < 0 || static_cast<size_t>(i) >= self->lenders->size()) {
    PyErr_Format(PyExc_IndexError, "there is no storage %lld", i);
    return nullptr;
  }
  return &(*self->lenders)[static_cast<size_t>(i)];
}

bool ReadLenders(LoansObject* self, PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (!THPStorage_Check(item)) {
      PyErr_SetString(PyExc_TypeError, "a list of storages is expected");
      return false;
    }
    const c10::Storage& storage = THPStorage_Unpack(item);
    self->lenders->push_back({storage.mutable_data(), storage.nbytes(), storage.device(), {}});
  }
  return true;
}

bool ReadLayouts(LoansObject* self, PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject *number = nullptr, *dtype = nullptr, *sizes = nullptr, *strides = nullptr;
    long long offset = 0;
    PyObject* item = PyList_GET_ITEM(list, i);
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "OOOOL", &number, &dtype, &sizes, &strides, &offset)) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "a tuple is expected");
      return false;
    }
    const Lender* lender = LenderOf(self, number);
    if (lender == nullptr) return false;
    if (!THPDtype_Check(dtype)) {
      PyErr_SetString(PyExc_TypeError, "a dtype is expected");
      return false;
    }
    LoanLayout layout{
        .lender = static_cast<size_t>(lender - self->lenders->data()),
        .dtype = c10::scalarTypeToTypeMeta(reinterpret_cast<THPDtype*>(dtype)->scalar_type),
        .sizes = {},
        .strides = {},
        .offset = offset,
    };
    if (!ReadAll(sizes, &layout.sizes, PyLong_AsLongLong) ||
        !ReadAll(strides, &layout.strides, PyLong_AsLongLong)) {
      return false;
    }
    if (layout.sizes.size() != layout.strides.size()) {
      PyErr_SetString(PyExc_TypeError, "as many strides as sizes are expected");
      return false;
    }
    self->layouts->push_back(std::move(layout));
  }
  return true;
}

PyObject* NewLoans(PyTypeObject* type, PyObject* args, PyObject*) {
  HANDLE_TH_ERRORS
  PyObject *storages = nullptr, *layouts = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &storages, &PyList_Type, &layouts)) {
    return nullptr;
  }
  Reference made(type->tp_alloc(type, 0));
  if (!made) return nullptr;
  auto* self = reinterpret_cast<LoansObject*>(made.get());
  self->lenders = new std::vector<Lender>;
  self->layouts = new std::vector<LoanLayout>;
  if (!ReadLenders(self, storages) || !ReadLayouts(self, layouts)) return nullptr;
  return Py_NewRef(made.get());
  END_HANDLE_TH_ERRORS
}

void DeallocateLoans(PyObject* object) {
  auto* self = reinterpret_cast<LoansObject*>(object);
  delete self->lenders;
  delete self->layouts;
  Py_TYPE(object)->tp_free(object);
}

PyObject* Tensors(PyObject* object, PyObject*) {
  HANDLE_TH_ERRORS
  auto* self = reinterpret_cast<LoansObject*>(object);
  std::vector<c10::Storage> lent;
  lent.reserve(self->lenders->size());
  for (Lender& lender : *self->lenders) {
    lender.loans.clear();
    lent.push_back(lender.Lend());
  }
  const auto count = static_cast<Py_ssize_t>(self->layouts->size());
  Reference list(PyList_New(count));
  if (!list) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const LoanLayout& layout = (*self->layouts)[static_cast<size_t>(i)];
    PyObject* tensor = THPVariable_Wrap(layout.On(lent[layout.lender]));
    if (tensor == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, tensor);
  }
  return Py_NewRef(list.get());
  END_HANDLE_TH_ERRORS
}

PyObject* Lend(PyObject* object, PyObject* number) {
  HANDLE_TH_ERRORS
  Lender* lender = LenderOf(reinterpret_cast<LoansObject*>(object), number);
  if (lender == nullptr) return nullptr;
  std::erase_if(lender->loans, [](const WeakStorage& loan) { return loan.expired(); });
  return THPStorage_Wrap(lender->Lend());
  END_HANDLE_TH_ERRORS
}

PyObject* Users(PyObject* object, PyObject* number) {
  const Lender* lender = LenderOf(reinterpret_cast<LoansObject*>(object), number);
  if (lender == nullptr) return nullptr;
  return PyLong_FromLong(std::count_if(lender->loans.begin(), lender->loans.end(),
                                       [](const WeakStorage& loan) { return !loan.expired(); }));
}

PyObject* Used(PyObject* object, PyObject*) {
  const auto* self = reinterpret_cast<LoansObject*>(object);
  Reference set(PySet_New(nullptr));
  for (size_t i = 0; set && i < self->lenders->size(); ++i) {
    if (!(*self->lenders)[i].IsUsed()) continue;
    const Reference number(PyLong_FromSize_t(i));
    if (!number || PySet_Add(set.get(), number.get()) != 0) return nullptr;
  }
  return Py_XNewRef(set.get());
}

PyObject* AnyUsed(PyObject* object, PyObject* numbers) {
  auto* self = reinterpret_cast<LoansObject*>(object);
  const Reference items(PySequence_Fast(numbers, "a sequence of numbers is expected"));
  if (!items) return nullptr;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const Lender* lender = LenderOf(self, PySequence_Fast_GET_ITEM(items.get(), i));
    if (lender == nullptr) return nullptr;
    if (lender->IsUsed()) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

PyObject* NumberOf(PyObject* object, PyObject* storage) {
  HANDLE_TH_ERRORS
  const auto* self = reinterpret_cast<LoansObject*>(object);
  if (!THPStorage_Check(storage)) {
    PyErr_SetString(PyExc_TypeError, "a storage is expected");
    return nullptr;
  }
  // It is in use here: no loan that has gone lies at its address.
  const c10::StorageImpl* wanted = THPStorage_Unpack(storage).unsafeGetStorageImpl();
  for (size_t i = 0; i < self->lenders->size(); ++i) {
    for (const WeakStorage& loan : (*self->lenders)[i].loans) {
      if (loan._unsafe_get_target() == wanted) return PyLong_FromSize_t(i);
    }
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef loans_methods[] = {
    {"tensors", Tensors, METH_NOARGS, "tensors(): new loans of all, one tensor a layout."},
    {"lend", Lend, METH_O, "lend(number): one more loan of a storage."},
    {"users", Users, METH_O, "users(number): how many loans of a storage are in use."},
    {"used", Used, METH_NOARGS, "used(): the storages of which a loan is in use."},
    {"any_used", AnyUsed, METH_O, "any_used(numbers): whether a loan of one of these is."},
    {"number_of", NumberOf, METH_O, "number_of(storage): the storage of which that is a loan."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject* LoansType() {
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "_tensord_native.Loans";
  type.tp_doc = "What a CUDA graph's results are given out as.";
  type.tp_basicsize = sizeof(LoansObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_new = NewLoans;
  type.tp_dealloc = DeallocateLoans;
  type.tp_methods = loans_methods;
  return &type;
}

}  // namespace tensord::native
