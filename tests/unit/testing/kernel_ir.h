// SPDX-License-Identifier: Apache-2.0
// What tests ask of a kernel's IR.
#ifndef TENSORD_TESTS_UNIT_TESTING_KERNEL_IR_H_
#define TENSORD_TESTS_UNIT_TESTING_KERNEL_IR_H_

#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"
#include "compiler/kernel_ir/text.h"

namespace tensord::testing {

// The prelude functions that a kernel calls, one for each call in its functions.
std::vector<std::string> CallsOf(const compiler::ir::Kernel& kernel);

// How many of them are of this function, for elements of this type.
int CountCalls(const compiler::ir::Kernel& kernel, std::string_view function,
               compiler::DType storage);

// How many pointers to buffers of this type the functions have.
int CountBuffers(const compiler::ir::Kernel& kernel, compiler::DType storage);

// The names of what functions have in dynamic shared memory.
std::vector<std::string> SharedArraysOf(const compiler::ir::Kernel& kernel);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_KERNEL_IR_H_
