// SPDX-License-Identifier: Apache-2.0
// A launch plan as text, for people.
#ifndef TENSORD_COMPILER_PLAN_TEXT_H_
#define TENSORD_COMPILER_PLAN_TEXT_H_

#include <string>

#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// A line for each symbol, buffer, step and output, and the workspace's sizes in bytes:
//
//     b0: float32[s0, 8] strides [8, 1] input 0  # x
//     b1: float32[s0, 8] strides [8, 1] workspace at 0
//     b2: float32[s0, 8] strides [8, 1] owned
//     s0 = size 0 of input 0, from 2 to 4096
//     workspace: s0 * 32 bytes
//     step 0: call aten::mm.out(b0, b0, b1) -> b1  # mm
//     step 1: launch tensord_add(b1, b2, s0) -> b2; module 0, grid s0, block 128  # add
//     step 2: free b1
//     return b2
//
// Buffers without a type, which no call has, are left out.
std::string ToString(const v1::Artifact& artifact);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PLAN_TEXT_H_
