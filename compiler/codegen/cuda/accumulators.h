// SPDX-License-Identifier: Apache-2.0
// The reductions of a CUDA nest: accumulators, their steps, and how threads and blocks combine
// them.
//
// A row reduction lives within a unit: each thread of the group has a vector of partial results; at
// the end of the pass its lanes, then the group's threads are combined, and all threads know the
// result. A reduction over rows outlives units: columns stay with the thread that owns them, totals
// with every thread; when a block has done its rows it leaves one copy in scratch memory. The
// copies are combined in a fixed order: those of a total by the last block to get there, as are the
// parts of a split row; those of columns, which would keep one block longer than a launch takes, by
// a second launch.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

#include <string>
#include <vector>

#include "compiler/codegen/accumulators.h"
#include "compiler/codegen/cuda/body.h"
#include "compiler/schedule/cuda/row_inside.h"

namespace tensord::compiler {

// NAME(args, block, shared) and how many blocks it has. It runs behind the nest, in a launch of its
// own; or in the nest's last block, as the block of the row that it shares with others.
struct CudaFinish {
  ir::Function function;
  Expr blocks;
};

// Names of every nest function: the block that runs it and how many there are, the group's shared
// memory; the copy of accumulators that the block has, as the functions that combine them call it.
ir::Value BlockNumber();
ir::Value Blocks();
ir::Value GroupMemory();
ir::Value CopyNumber();

class CudaAccumulators : public Accumulators {
 public:
  CudaAccumulators(const Program& program, const Nest& nest, const CudaPlan& plan, CudaBody* body,
                   KernelInterface* interface);

  ir::Block DeclareRow(int position) const;
  // Combines the group's threads and leaves the pass's scalars to later positions; in a split row
  // it leaves the part's state in scratch memory.
  void RowResults(int position);
  // The vector of columns of a thread that owns it.
  void ColumnResults();

  // column_groups.cc: what the threads have that share a vector of columns becomes one, which the
  // first of them knows. All threads of the block run this; of blocks that share columns only the
  // last goes on behind it. `exists`: whether the columns do.
  ir::Block CombineColumnGroups(const ir::Value& exists);

  ir::Block DeclarePrivate();
  ir::Block SavePrivate();

  // finish.cc: the functions that combine what the blocks leave.
  std::vector<CudaFinish> Finish(const std::string& name);
  // The end of a nest whose last block does that.
  ir::Block FinishInLastBlock(const std::vector<CudaFinish>& finishes);

 protected:
  ir::Value AddressOf(const Accumulator& acc) const override;
  ir::Value VariableOf(const Accumulator& acc, int copy) const override;
  ir::Value AddTail(const StateFunctions& state, const ir::Value& target, const ir::Value& value,
                    const ir::Value& position) const override;

 private:
  // What lies in scratch memory: an element, or a state of one lane.
  static ir::Type SavedType(const Accumulator& acc);
  // The fields of a column's state; "" for a plain value.
  static std::vector<std::string> ColumnParts(ReduceKind kind);
  // The lanes of an accumulator of a row.
  ir::Value Lanes() const { return HasVectorLoop() ? Width() : ir::Value(1); }
  // Whether it is one of several groups of whole warps.
  bool HasParts(int group) const { return group == plan_.G() && HasGroupsOfWarps(plan_); }
  ir::Value CombineGroup(const Accumulator& acc, const ir::Value& value, int group,
                         const ir::Value& shared) const;
  // Those of a pass that the plan combines together.
  std::vector<const Accumulator*> JointSums(int position) const;
  void JointSumResults(const std::vector<const Accumulator*>& sums);
  // Elements from one copy of a row of columns to the next: whole vectors of any width.
  Expr ColumnStride() const;
  // In a function whose integers `body` declares.
  ir::Value SavedAt(const Accumulator& acc, BodyLowering* body) const;
  // Where a part of a column's value lies: every part has an array of its own.
  ir::Value ColumnAt(const Accumulator& acc, size_t part, BodyLowering* body) const;
  ir::Block SaveTotal(const Accumulator& acc);
  ir::Block SaveColumns(const Accumulator& acc);
  // Of the accumulators of a sweep.
  const CudaSweep& Sweep() const { return *plan_.As<CudaSweep>(); }
  const Expr& Copies() const { return Sweep().copies; }

  // ---- column_groups.cc

  ir::Block CombineSharers() const;
  ir::Block CombineColumnParts(const ir::Value& exists);

  // ---- finish.cc

  // The end of each block but the last of those, `sharers` of them, that share counter `number` of
  // so many.
  ir::Statement ReturnUnlessLast(const Expr& counters, const ir::Value& number,
                                 const ir::Value& sharers);
  CudaFinish FinishTotal(const Accumulator& acc, const std::string& name);
  CudaFinish FinishColumns(const std::vector<const Accumulator*>& columns, const std::string& name);
  CudaFinish FinishSplit(const std::string& name);

  const CudaPlan& plan_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
