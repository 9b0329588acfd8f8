// SPDX-License-Identifier: Apache-2.0
// The reductions of a CPU nest.
//
// A row reduction lives within a unit: a vector of partial results, reduced across lanes behind the
// loop. In a blocked nest it is an array with one accumulator per column of the block. A reduction
// over the outer loops outlives units: each task has its own copy in scratch memory (a scalar, or
// one element per column), and the copies are combined in task order once all tasks are done.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
#define TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

#include <string>
#include <vector>

#include "compiler/codegen/accumulators.h"
#include "compiler/schedule/cpu/plan.h"

namespace tensord::compiler {

class CpuAccumulators : public Accumulators {
 public:
  CpuAccumulators(const Program& program, const Nest& nest, const CpuPlan& plan, BodyLowering* body,
                  KernelInterface* interface);

  bool HasPrivate() const;

  // Accumulators of a pass, in every copy (CpuPlan::accumulator_copies).
  ir::Block DeclareRow(int position, int copies) const;
  // Before and behind a part of a pass's loops (CpuPlan::chains): accumulators that begin anew, and
  // their addition to those of the whole.
  ir::Block BeginPart(int position, int copies) const;
  ir::Block AddPart(int position, int copies) const;
  // Merges the copies and leaves the pass's scalars to later positions.
  void RowResults(int position, int copies);
  // A blocked nest's results, for the columns [first, last).
  ir::Block StoreBlock(int position, const ir::Value& first, const ir::Value& last);

  ir::Block DeclarePrivate();
  // Before and behind a part of a task's units.
  ir::Block BeginUnits() const;
  ir::Block AddUnits() const;
  ir::Block SavePrivate() const;
  // The function that combines the tasks' copies, which lie `stride` bytes apart.
  ir::Function Finish(const std::string& name);

 protected:
  ir::Value AddressOf(const Accumulator& acc) const override;
  ir::Value VariableOf(const Accumulator& acc, int copy) const override;
  ir::Value AddTail(const StateFunctions& state, const ir::Value& target, const ir::Value& value,
                    const ir::Value& position) const override;

 private:
  bool IsBlocked() const { return nest_.shape == NestShape::kBlocked; }
  ir::Value Lanes() const { return HasVectorLoop() ? Width() : ir::Value(1); }
  int VectorLoop() const { return VectorLoopOf(nest_).second; }
  // Whether it starts anew in parts of a pass, of a task's units.
  bool HasParts(const Accumulator& acc) const;
  bool HasPartsOfUnits(const Accumulator& acc) const;
  static std::string NameOf(const Accumulator& acc, int copy);
  // What the pass has gathered.
  std::string NameOfPass(const Accumulator& acc) const;
  // What units are added to, and what a task gathers: more than the other where that has parts.
  static std::string NameOverUnits(const Accumulator& acc);
  std::string NameOfTask(const Accumulator& acc) const;
  ir::Value LanesOverUnits(const Accumulator& acc) const {
    return acc.member->has_inner ? Lanes() : ir::Value(1);
  }
  ir::Block DeclareCopies(const Accumulator& acc, int copies) const;
  ir::Block MergeCopies(const Accumulator& acc, int copies) const;
  // An accumulator for each column of a block: `name`.
  ir::Block DeclareColumns(const Accumulator& acc, const std::string& name) const;
  // Of the first `count` columns.
  static ir::Statement StartColumns(const Accumulator& acc, const std::string& name,
                                    const ir::Value& count);
  // has_tail: `count` may be no whole vectors.
  static ir::Statement AddColumns(const Accumulator& acc, const ir::Value& count, bool has_tail);
  ir::Value ColumnsOfTask() const { return body_->Extent(sym::Product(nest_.inner)); }
  // An accumulator for each column, in memory.
  static ir::Value Array(const Accumulator& acc, const std::string& name);
  // Of those that outlive units, in a task's scratch memory.
  const ir::Value& OffsetOf(const Accumulator& acc) const;
  ir::Block FinishTotal(const Accumulator& acc);
  ir::Block FinishColumns(const Accumulator& acc);

  const CpuPlan& plan_;
  // By accumulator, of those that outlive units: of what a task gathers, and of a part of it.
  std::vector<ir::Value> offsets_, part_offsets_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
