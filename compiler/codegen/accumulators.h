// SPDX-License-Identifier: Apache-2.0
// The reductions of a nest: their accumulators, what each step does to them, and their results.
// What differs between targets is in cpu/accumulators.h and cuda/accumulators.h.
#ifndef TENSORD_COMPILER_CODEGEN_ACCUMULATORS_H_
#define TENSORD_COMPILER_CODEGEN_ACCUMULATORS_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/body.h"
#include "compiler/codegen/reductions.h"
#include "compiler/schedule/nest_reductions.h"

namespace tensord::compiler {

struct Accumulator : NestReduction {
  int number;        // of the reduction (ReductionsOf)
  std::string name;  // a variable, or an array of columns
  // Of those that outlive units: bytes of scratch memory before theirs.
  std::optional<Expr> offset;

  // One for each column.
  bool IsColumns() const { return IsOfColumns(); }
  // It outlives units.
  bool IsPrivate() const { return IsOverRows(); }
  ReduceKind kind() const { return reduction->kind; }
  // Of an element.
  ir::Type scalar() const { return ir::ScalarType(ComputeType(dtype)); }
};

class Accumulators {
 public:
  virtual ~Accumulators() = default;

  // Adds the values of a member's vector (or of its tail) to copy `copy` of its accumulators.
  void Accumulate(const NestMember& member, int copy);
  // Adds a row statement's value, which is reduced over the rows.
  void AccumulateRow(const NestMember& member);

 protected:
  Accumulators(const Program& program, const Nest& nest, BodyLowering* body,
               KernelInterface* interface);

  // ---- What targets do differently

  // Where the accumulators of the present vector lie in memory; none where they are variables.
  virtual ir::Value AddressOf(const Accumulator& acc) const = 0;
  // The variable, or the element of an array of them, that is the accumulator of a vector.
  virtual ir::Value VariableOf(const Accumulator& acc, int copy) const = 0;
  // The state `target` with the values of a tail's lanes. `position`: of an arg reduction.
  virtual ir::Value AddTail(const StateFunctions& state, const ir::Value& target,
                            const ir::Value& value, const ir::Value& position) const = 0;

  // ---- What they have in common

  bool HasVectorLoop() const { return !nest_.inner.empty(); }
  // What an accumulator of so many lanes starts with.
  static ir::Value Start(const Accumulator& acc, const ir::Value& lanes);
  // A variable of the type of such a start.
  static ir::Value Named(const std::string& name, const Accumulator& acc, const ir::Value& lanes);
  // target = combine(target, value).
  static ir::Statement Combine(const Accumulator& acc, const ir::Value& target,
                               const ir::Value& value);
  // The value of a vector, of whose lanes beyond a tail the neutral element is left.
  ir::Value InTail(const Accumulator& acc, const ir::Value& value) const;
  // The results of a state of one lane, or of a vector of one, as scalars of the row.
  static void StoreResults(const Accumulator& acc, const ir::Value& state, BodyLowering* body);

  const Program& program_;
  const Nest& nest_;
  BodyLowering* body_;
  KernelInterface* interface_;
  std::vector<Accumulator> all_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_ACCUMULATORS_H_
