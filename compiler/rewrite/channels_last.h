// SPDX-License-Identifier: Apache-2.0
// Regions of convolutions, and what lies between them, run in channels-last memory.
//
// Convolutions on tensor cores compute on channels-last memory: given row-major images, the library
// transposes their arguments and results in kernels of its own. So regions of convolutions and of
// what lies between them run in channels-last memory: their inputs are transposed once, in the
// kernels that make them where there are such, and what leaves a region is as eager promises it.
//
// Only declared strides change, and copies are added at the borders: lowering and the library's own
// choice of its results' layout do the rest. A region changes when its borders cost less than its
// convolutions would transpose; training's forward graph, which hands out most of what it computes
// in eager's layout, therefore stays as it is.
#ifndef TENSORD_COMPILER_REWRITE_CHANNELS_LAST_H_
#define TENSORD_COMPILER_REWRITE_CHANNELS_LAST_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Gives the number of nodes whose results changed their layout.
int ChannelsLast(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CHANNELS_LAST_H_
