// SPDX-License-Identifier: Apache-2.0
// What a CUDA graph's results are given out as: tensors over its memory, which do not own it.
//
//   Loans(storages, layouts)
//   loans.tensors() -> list of tensors, one a layout: new loans of every storage, and from now on
//       the only ones that are asked about
//   loans.lend(number) -> a storage: one more loan of that one
//   loans.users(number) -> int, its loans that are in use
//   loans.used() -> set of int, the storages of which a loan is in use
//   loans.any_used(numbers: sequence of int) -> bool, whether one of these is
//   loans.number_of(storage) -> int or None, the storage of which that is a loan
//
// storages: list of torch.UntypedStorage; their memory has to stay for as long as loans are in use.
// layouts: list of (number of a storage, dtype, sizes, strides, offset in elements).
//
// cuda_graphs/loans.py says the same in Python.
#ifndef TENSORD_NATIVE_LOANS_H_
#define TENSORD_NATIVE_LOANS_H_

#include <Python.h>

namespace tensord::native {

// Loans' type, to be made ready once.
PyTypeObject* LoansType();

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_LOANS_H_
