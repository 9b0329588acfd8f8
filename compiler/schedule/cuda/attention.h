// SPDX-License-Identifier: Apache-2.0
// How a kernel of attention runs: which tile each block has, and what it keeps on chip.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_

#include <string>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

struct CudaAttentionPlan {
  // Columns of keys and of values on chip: multiples of 64, beyond those that there are zeros.
  int columns = 64, value_columns = 64;
  int rows = 64;  // of a block: of queries, or of keys for their gradients
  int threads = 128;
  int shared_bytes = 0;
  int resident = 1;  // blocks that a multiprocessor has room for
  Expr blocks;
  bool wide_index = false;  // what functions read is not reached by 32 bits
  // What functions read of a query alone: buffers of float32, each at one index without keys, and
  // one load of each, as an instruction of the first function. Read once for a query.
  struct QueryValue {
    BufferId buffer;
    int load;
  };
  std::vector<QueryValue> query_values;
  // What the kernel is given: the call's, of forward without the factor that they all end with.
  std::vector<LoopOp> functions;
  float factor = 1;
  // Lanes of the vector that has them: where there is none, one that nobody reads.
  int query_lanes() const {
    return query_values.empty() ? 1 : static_cast<int>(query_values.size());
  }
};

// Requires: op.attention.
CudaAttentionPlan PlanCudaAttention(const Program& program, const ExternOp& op);

std::string ToString(const CudaAttentionPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_
