// The reductions of a nest: their accumulators' declarations, steps and results as C++ text.
//
// A row reduction lives within a unit: a vector of partial results, reduced across lanes behind the
// loop. In a blocked nest it is an array with one accumulator per column of the block. A reduction
// over the outer loops outlives units: each task has its own copy in scratch memory (a scalar, or
// one element per column), and the copies are combined in task order once all tasks are done.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
#define TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

#include <string>
#include <vector>

#include "compiler/codegen/body.h"
#include "compiler/codegen/interface.h"
#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

class AccumulatorEmitter {
 public:
  AccumulatorEmitter(const Program& program, const Nest& nest, const CpuPlan& plan,
                     BodyEmitter* body, KernelInterface* interface);

  bool HasPrivate() const { return !private_.empty(); }

  // Accumulators of a pass, in every copy (CpuPlan::accumulator_copies).
  std::string DeclareRow(int position, int copies) const;
  // Adds the member's values of this vector (or of the tail) to copy `copy`.
  void Accumulate(const NestMember& member, bool tail, int copy);
  // Merges the copies and leaves the pass's scalars to later positions.
  void EmitRowResults(int position, int copies);
  // A blocked nest's results, for the columns [first, last).
  std::string StoreBlock(int position, const std::string& first, const std::string& last);
  // A row statement that is reduced over the rows.
  void AccumulateRow(const NestMember& member);

  std::string DeclarePrivate();
  std::string SavePrivate() const;
  // `static void NAME_finish(args, tasks, stride)`.
  std::string Finish(const std::string& name);

 private:
  struct Accumulator {
    const NestMember* member;
    const Reduction* reduction;
    std::string name;  // a variable, or the columns' array
    DType dtype;
    std::string type;    // compute type
    std::string offset;  // of those that outlive units: in the task's scratch
  };

  static bool IsColumns(const Accumulator& acc) {
    return acc.member->has_inner && !acc.member->reduces_inner;
  }
  bool HasVectorLoop() const { return !nest_.inner.empty(); }
  std::string VectorLoop() const;
  std::string Start(const Accumulator& acc) const;
  static std::string NameOf(const Accumulator& acc, int copy);

  const Program& program_;
  const Nest& nest_;
  const CpuPlan& plan_;
  BodyEmitter* body_;
  KernelInterface* interface_;
  std::vector<Accumulator> row_;
  std::vector<Accumulator> private_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
