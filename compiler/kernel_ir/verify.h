// SPDX-License-Identifier: Apache-2.0
// What holds of every kernel that a printer is given.
//
// - A name is defined before it is used, once in its scope, and has one type.
// - Operands have the kinds and lanes that functions take; a scalar is wanted where none is given
//   as a vector. Conditions are conditions, indices are integers.
// - Functions of the prelude are in its table, on this device.
// - Stores go through pointers that the kernel writes, to buffers that it says it writes.
// - Barriers are met by all threads of a block, reductions by all of a group: none stands under a
//   condition, in a loop or behind a return that these threads may take apart (verify_barriers.cc).
// - What a function has of shared memory lies within the bytes it asks for, and nothing overlaps.
// - Functions are defined before they are called, with as many operands as parameters.
#ifndef TENSORD_COMPILER_KERNEL_IR_VERIFY_H_
#define TENSORD_COMPILER_KERNEL_IR_VERIFY_H_

#include "base/status.h"
#include "compiler/kernel_ir/kernel_ir.h"

namespace tensord::compiler::ir {

// INTERNAL, naming function and statement, for a kernel that breaks one of these rules.
absl::Status Verify(const Kernel& kernel);

// The rule about barriers, of a CUDA kernel. Requires that all others hold.
absl::Status VerifyBarriers(const Kernel& kernel);

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_VERIFY_H_
