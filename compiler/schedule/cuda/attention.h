// SPDX-License-Identifier: Apache-2.0
// How a kernel of attention runs: which tile each block has, and what it keeps on chip.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_

#include <string>

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
};

// Requires: op.attention.
CudaAttentionPlan PlanCudaAttention(const Program& program, const ExternOp& op);

std::string ToString(const CudaAttentionPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_H_
