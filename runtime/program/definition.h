// SPDX-License-Identifier: Apache-2.0
// An integer that is no size of an input but float64 arithmetic over symbols, rounded (Definition
// of graph.proto).
#ifndef TENSORD_RUNTIME_PROGRAM_DEFINITION_H_
#define TENSORD_RUNTIME_PROGRAM_DEFINITION_H_

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/program/expr.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::runtime {

class Definition {
 public:
  // Over symbols [0, num_symbols). TENSORD_CORRUPT: an empty or unknown part, a wrong number of
  // arguments, a symbol out of range, no rounding.
  static TensordError Make(const v1::Definition& proto, uint32_t num_symbols, Definition* made);

  // Its value where the symbols have these. False where that is no integer of 64 bits, as of NaN.
  bool Evaluate(const int64_t* symbols, int64_t* result) const;

 private:
  enum class Op : uint8_t { kConstant, kInteger, kAdd, kMul, kDiv, kPow, kSqrt };
  struct Instruction {
    Op op;
    double constant = 0;
    uint32_t begin = 0, end = 0;  // kInteger: of integers_
  };

  TensordError Emit(const v1::RealExpr& real, uint32_t num_symbols, uint32_t depth);

  std::vector<Instruction> code_;          // postfix
  std::vector<ExprInstruction> integers_;  // of all integers in it
  v1::Definition::Rounding rounding_ = v1::Definition::ROUNDING_UNSPECIFIED;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROGRAM_DEFINITION_H_
