// SPDX-License-Identifier: Apache-2.0
// Which parts of a call have a workspace of their own.
//
// A workspace is as large as the fullest step of a call needs, and is there at all other steps too.
// Where the call's peak is not at its fullest step, the call is cut into segments. What lives
// within one lies in that segment's block, which is allocated at the first step that needs it and
// freed after the last. A backward call begins with the gradient of a vocabulary's logits, while
// all that forward saved is still there: that is a segment.
//
// A large buffer that lives on while others come and go, as images do that residuals are added to,
// fits no segment. It may have a block of its own. Where the same happens in layer after layer, as
// with what attention gives, which a library allocates, while the operands of the next product have
// yet to come, a few blocks gain nothing: each of the large buffers has one then, but for those
// sizes that need none.
#ifndef TENSORD_COMPILER_MEMORY_SEGMENTS_H_
#define TENSORD_COMPILER_MEMORY_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "compiler/memory/lifetimes.h"

namespace tensord::compiler {

// What is to lie in workspaces.
struct Tenant {
  Lifetime life;
  int64_t bytes;
};

// What a cut is to be worth. A block takes the host a microsecond or two.
struct SegmentCosts {
  size_t most_cuts = 8;
  size_t most_places = 256;  // that are tried for each
  // Cuts lower the peak, each on average, by so much of itself and by so many bytes.
  double least_gain = 0.0025;
  int64_t least_bytes = 1 << 20;
  // Tenants with a block of their own, how many are tried, and what part of the peak they are at
  // least.
  size_t most_alone = 4, most_tried = 16;
  double least_alone = 0.125;
  // Where all large tenants have one: so many at most, and of so many bytes at least, beside whose
  // kernels an allocation takes no time.
  size_t most_apart = 256;
  int64_t least_apart = 2 << 20;
};

struct Segments {
  std::vector<int> cuts;  // the steps that begin a segment, but for the first, in order
  // Tenants with a block of their own, by their numbers, in order; each of several steps.
  std::vector<size_t> alone;
};

// `others`: the bytes of all other memory of the call, by step.
Segments FindSegments(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
                      const SegmentCosts& costs = {});

// The number of the segment that a life lies in; -1: in several.
int SegmentOf(const Lifetime& life, const std::vector<int>& cuts);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_SEGMENTS_H_
