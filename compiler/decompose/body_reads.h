// SPDX-License-Identifier: Apache-2.0
// What a lazy tensor reads, found by running its body once.
#ifndef TENSORD_COMPILER_DECOMPOSE_BODY_READS_H_
#define TENSORD_COMPILER_DECOMPOSE_BODY_READS_H_

#include <set>
#include <utility>
#include <vector>

#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// Buffers that the body of a lazy tensor loads from, with the element indices.
struct BodyReads {
  std::set<BufferId> buffers;
  std::vector<std::pair<BufferId, Expr>> indices;
};

// One loop variable for each dimension, numbered from 0.
std::vector<Expr> LoopIndex(const Sizes& sizes);

// At the index LoopIndex(t.sizes()).
BodyReads ReadsOf(const Tensor& t);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_BODY_READS_H_
