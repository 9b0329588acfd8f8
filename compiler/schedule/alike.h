// Nests that differ in their buffers and sizes alone, as an optimizer's step over many parameters
// leaves them: one function can serve them all. And those that at least compute the same, as the
// rotations of queries and keys do.
#ifndef TENSORD_COMPILER_SCHEDULE_ALIKE_H_
#define TENSORD_COMPILER_SCHEDULE_ALIKE_H_

#include <string>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// A pointwise nest over one contiguous space, or over one element: the form in which a size is only
// a bound.
bool HasAnySize(const Nest& nest);

// What the nest computes, without its size and with buffers numbered as they occur; equal for nests
// that one function can serve. Requires: HasAnySize.
std::string AlikeText(const Program& program, const Nest& nest);

// What a pointwise nest computes and the form of its accesses, whatever its sizes: equal for nests
// whose kernels take about as many registers, so that neither is much slower for the other. "" for
// other nests.
std::string OperationsText(const Program& program, const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ALIKE_H_
