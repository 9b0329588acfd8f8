// SPDX-License-Identifier: Apache-2.0
// The integers of a plan: every size, stride, offset and kernel argument is a slot of one table.
//
// Constants are written into the table at load. What depends on symbols is compiled to postfix code
// and evaluated once per call, in the order of the slots; a program without symbols evaluates
// nothing.
#ifndef TENSORD_RUNTIME_PROGRAM_EXPR_H_
#define TENSORD_RUNTIME_PROGRAM_EXPR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::runtime {

using Slot = uint32_t;

// How deep an expression or a definition nests. Operands alive at once while its postfix code runs:
// an operation of any number of operands is folded pairwise, so one more than its tree is deep.
inline constexpr uint32_t kMaxExprDepth = 62;
inline constexpr uint32_t kExprStack = kMaxExprDepth + 2;

// A step of an expression's postfix code.
struct ExprInstruction {
  enum class Op : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  Op op;
  int64_t operand;  // a constant, a symbol
};

// Appends the code of `expr` over symbols [0, num_symbols). TENSORD_CORRUPT: no kind, a symbol out
// of range, a wrong number of arguments.
TensordError EmitExpr(const v1::SymExpr& expr, uint32_t num_symbols,
                      std::vector<ExprInstruction>* code);
// False on overflow or division by zero.
bool RunExpr(std::span<const ExprInstruction> code, const int64_t* symbols, int64_t* result);

class ExprTable {
 public:
  // Slots [0, num_symbols) are the symbols' values.
  explicit ExprTable(uint32_t num_symbols) : num_symbols_(num_symbols), values_(num_symbols, 0) {}
  ExprTable() : ExprTable(0) {}

  // Adds `expr` as the next slot. TENSORD_CORRUPT: no kind, a symbol out of range, a wrong number
  // of arguments, a constant that overflows or divides by zero.
  TensordError Add(const v1::SymExpr& expr, Slot* slot);
  Slot AddConstant(int64_t value);

  // The table as it is before a call: constants in place, the rest 0.
  const std::vector<int64_t>& values() const { return values_; }
  bool is_static() const { return dynamic_.empty(); }
  bool IsConstant(Slot slot) const;
  uint32_t num_symbols() const { return num_symbols_; }

  // Fills the dynamic slots of `values` (a copy of values() with the symbols set). False on
  // overflow or division by zero.
  bool Evaluate(int64_t* values) const;

 private:
  struct Dynamic {
    Slot slot;
    uint32_t begin, end;  // of code_
  };

  uint32_t num_symbols_;
  std::vector<int64_t> values_;
  std::vector<ExprInstruction> code_;
  std::vector<Dynamic> dynamic_;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROGRAM_EXPR_H_
