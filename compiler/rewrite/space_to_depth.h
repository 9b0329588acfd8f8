// SPDX-License-Identifier: Apache-2.0
// A strided convolution over an image of few channels, as the first one of a network for images,
// becomes a convolution with stride 1 over blocks of pixels: space to depth.
//
//   image [N, C, H, W], stride s, kernel k  ->  [N, C' s s, H/s, W/s], kernel ceil(k/s)
//
// The library pads the channels of both operands to 16 bytes, of which three channels leave most
// empty, and reads windows of them that overlap. In blocks the channels are full, and the windows
// are of fewer, contiguous pieces. The convolution's own padding, zeros up to whole blocks, and
// zeros up to C' channels are part of the copy that makes the blocks, which fuses with the image's
// conversion; the filter is laid out in the same way. So the result is the same up to rounding, but
// for one thing: a filter that is filled up with zeros multiplies pixels that eager does not look
// at, so a NaN or an infinity of the image reaches results up to s - 1 pixels further away.
//
// The weights' gradient stays as it is. Must follow channels_last, which decides about layouts: the
// result has the strides that it had; and fold_batch_norm and patch_embedding. Must come before
// convolution_epilogues, whose calls take whole 16 bytes of channels.
#ifndef TENSORD_COMPILER_REWRITE_SPACE_TO_DEPTH_H_
#define TENSORD_COMPILER_REWRITE_SPACE_TO_DEPTH_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// When it pays. Copies are left out: the library pads the image in one of its own. Rates were taken
// with a convolution of 7x7, stride 2, over 64 images of 224x224 on an H200.
struct SpaceToDepthCosts {
  // Multiply-adds of a microsecond, zeros counted: over few channels as the library pads them, and
  // over blocks.
  double rate_of_few_channels = 47e6;
  double rate_of_blocks = 77e6;
  // Microseconds that must be gained: a small image waits for launches anyway.
  double least_gain = 10;
};

// Gives the number of convolutions that became ones over blocks.
int SpaceToDepth(const SpaceToDepthCosts& costs, Graph* graph);
int SpaceToDepth(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_SPACE_TO_DEPTH_H_
