// SPDX-License-Identifier: Apache-2.0
// The functions of the prelude (kernels/cpu, kernels/cuda) that generated kernels call.
#ifndef TENSORD_COMPILER_KERNEL_IR_PRELUDE_H_
#define TENSORD_COMPILER_KERNEL_IR_PRELUDE_H_

#include <span>
#include <string_view>
#include <vector>

#include "compiler/kernel_ir/value.h"

namespace tensord::compiler::ir {

// Which threads meet in a call.
enum class Meets : uint8_t {
  kNobody,
  kGroup,  // those that the first template argument counts, which follow each other
  kBlock,
};

struct PreludeFunction {
  enum Devices : uint8_t { kCpu = 1, kCuda = 2, kBoth = 3 };
  std::string_view name;  // without "tk::"
  Devices devices;
  // A letter for each template argument: t a type, w lanes of a vector, n another integer.
  std::string_view templates;
  // A letter for each operand:
  //   v vector   u vector of one lane   m mask   e vector or mask   x state   k packed vector
  //   s scalar   i integer              p memory that is read       q memory that is written
  //   g shared memory of a group, or bytes of it                    c combiner or local function
  //   a array of vectors or states      y any value              o struct of the prelude's
  // Vectors, masks and states of one call have the same lanes.
  std::string_view operands;
  // - nothing; b condition; i int; n index; t scalar of the first template; v vector of it, of `w`
  // lanes or those of the operands; k packed likewise; m mask; 0, 1 as that operand; s scalar of
  // operand 0's type; w vector of that, of `w` lanes; f vector of float32; r state of operand 0,
  // one lane; x new state; g group memory; o struct.
  char result;
  bool has_effect =
      false;  // it writes memory or operand 0; others may be called as often as one likes
  Meets meets = Meets::kNobody;
  // What kernels that call it include besides: kernels/special, or kernels/cuda/attention.
  enum Header : uint8_t { kCommon, kSpecial, kAttention } header = kCommon;
};

// All of them but the scalar operations of loop_ir/ops.def, which take and give vectors of any
// lanes on both devices.
std::span<const PreludeFunction> PreludeFunctions();

// The function of that name and so many arguments, a scalar operation or another; null where there
// is none.
const PreludeFunction* FindPrelude(std::string_view name, size_t templates, size_t operands);

// The type of a call's result. Requires arguments in such numbers; it has no meaning where they are
// not of the right kinds, which Verify says.
Type ResultType(const PreludeFunction& function, const std::vector<TemplateArgument>& templates,
                const std::vector<Value>& operands);

// Whether an operand of that type fits such a letter.
bool Fits(char letter, const Type& type);

// The lanes that a template argument says: a number, or W.
int LanesOf(const Value& argument);

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_PRELUDE_H_
