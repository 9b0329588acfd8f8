// SPDX-License-Identifier: Apache-2.0
// Structurally equal nests, which differ in their buffers and sizes alone, as an optimizer's step
// over many parameters leaves them: one function can serve them all. And those that at least
// compute the same, as the rotations of queries and keys do.
#ifndef TENSORD_COMPILER_SCHEDULE_EQUAL_NESTS_H_
#define TENSORD_COMPILER_SCHEDULE_EQUAL_NESTS_H_

#include <string>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// A pointwise nest over one contiguous space, or over one element: the form in which a size is only
// a bound.
bool HasAnySize(const Nest& nest);

// What the nest computes, to the last bit of its constants, but without its size, with buffers
// numbered as they occur, and whatever the streams of its random numbers: equal for structurally
// equal nests. Requires: HasAnySize.
std::string StructureText(const Program& program, const Nest& nest);

// What a pointwise nest computes and the form of its accesses, whatever its sizes: equal for nests
// whose kernels take about as many registers, so that neither is much slower for the other. "" for
// other nests.
std::string OperationsText(const Program& program, const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_EQUAL_NESTS_H_
