// SPDX-License-Identifier: Apache-2.0
// Where every buffer lies once the sizes are known, and the proof that it lies inside its storage.
#ifndef TENSORD_RUNTIME_PROGRAM_LAYOUT_H_
#define TENSORD_RUNTIME_PROGRAM_LAYOUT_H_

#include <cstdint>
#include <string>

#include "runtime/base/error.h"
#include "runtime/program/plan.h"

namespace tensord::runtime {

// Bytes: of the workspace and of what lies in it, as the compiler places it
// (compiler/memory/workspace_bytes.h).
inline constexpr int64_t kWorkspaceAlignment = 64;

// Ensures: sizes, strides and offset are not negative and nothing overflows.
TensordError ComputePlace(const Layout& layout, const int64_t* values, Place* place);

// Fills `places`, one per buffer. Ensures: workspace buffers lie inside the workspace, 64-aligned;
// views lie inside their root's storage (views of inputs: not before the storage's start; the end
// is checked against the tensor in the call where it is beyond the input's own extent); buffers on
// inputs have the input's layout. The code of a failure is TENSORD_CORRUPT.
TensordError ComputePlaces(const TensordProgram& program, const int64_t* values, Place* places);

// Whether two layouts address the same elements: sizes equal, and strides too but where a dimension
// has one element or the tensor none.
bool SameLayout(int32_t ndim, const int64_t* sizes, const int64_t* strides,
                const int64_t* other_sizes, const int64_t* other_strides);

// Whether a tensor may be on another device than planned: the seeds and offsets that attention
// keeps for its backward operator are a few integers, and torch puts them where it likes.
// `in_launch`: a kernel reads it, so its device is not open.
bool MayBeElsewhere(const Layout& layout, const int64_t* sizes, bool in_launch);

// "float32[2, 3] strides [3, 1]", for messages.
std::string DescribeLayout(int32_t dtype, int64_t ndim, const int64_t* sizes,
                           const int64_t* strides);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROGRAM_LAYOUT_H_
