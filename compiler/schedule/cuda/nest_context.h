// SPDX-License-Identifier: Apache-2.0
// What the schedules of all kinds ask of a nest and its target, found out once.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_NEST_CONTEXT_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_NEST_CONTEXT_H_

#include "compiler/schedule/cuda/widths.h"
#include "compiler/schedule/nest.h"
#include "compiler/schedule/reject.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

struct NestContext {
  // Of a nest in the form that PrepareCudaNest gives it. `fixed_threads`: the block size that other
  // nests of the launch ask for, or 0.
  NestContext(const Program& program, const Nest& nest, const v1::CudaTarget& target,
              int fixed_threads);

  const Program& program;
  const Nest& nest;
  const v1::CudaTarget& target;
  const int fixed_threads;
  const Widths widths;
  const Expr rows;
  const Expr aligned_vectors;  // of a row, each of widths.aligned elements

  // Of the last inner loop alone, where threads own columns.
  Expr ColumnVectors(int width) const;
  int Threads(int wanted) const { return fixed_threads > 0 ? fixed_threads : wanted; }
  int Multiprocessors() const;  // 1 where the target does not say
  int Registers() const;        // of a multiprocessor
  // Blocks of so many threads that sweep over the same elements or rows.
  int SweepBlocks(int threads) const;
  // A row for each block would leave multiprocessors idle.
  bool HasFewLongRows() const;
  // One loop, long enough for what each row costs beside its vectors. Places count lanes one by
  // one, so none are sought.
  bool HasLongRow() const;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_NEST_CONTEXT_H_
