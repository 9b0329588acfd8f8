// SPDX-License-Identifier: Apache-2.0
// The text of a kernel in its target's language. Printers spell what the kernel IR says, and decide
// nothing.
#ifndef TENSORD_COMPILER_CODEGEN_PRINT_H_
#define TENSORD_COMPILER_CODEGEN_PRINT_H_

#include <string>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"
#include "compiler/kernel_ir/prelude.h"

namespace tensord::compiler {

// Requires: ir::Verify(kernel) is OK.
std::string PrintCpp(const ir::Kernel& kernel);
std::string PrintCuda(const ir::Kernel& kernel);

// What C++ and CUDA have in common; targets override how a function reaches its launch.
class KernelPrinter {
 public:
  virtual ~KernelPrinter() = default;

 protected:
  virtual std::string IndexType() const = 0;
  virtual std::string ArgumentsType() const = 0;
  // A buffer's address and an integer of the launch, by position.
  virtual std::string BufferText(const std::string& position) const = 0;
  virtual std::string IntegerText(const std::string& position) const = 0;
  virtual std::string ScratchText() const = 0;
  // "const int64_t": of integers as the launch has them.
  virtual std::string BoundIndexType() const = 0;
  // Behind the type of a pointer to a buffer.
  virtual std::string Restrict() const { return ""; }
  virtual std::string FunctionPrefix(ir::Role role) const = 0;

  std::string TypeText(const ir::Type& type) const;
  std::string Text(const ir::Value& value) const;
  // Statements, indented by `depth` times two spaces.
  std::string Text(const ir::Block& block, int depth) const;
  std::string ParametersText(const std::vector<ir::Parameter>& parameters) const;
  // The inclusion of `header` where the kernel calls a function that is in it, else nothing.
  static std::string IncludeOf(ir::PreludeFunction::Header which, const ir::Kernel& kernel,
                               const std::string& header);
  // All functions, with an empty line behind each.
  std::string FunctionsText(const ir::Kernel& kernel) const;

 private:
  friend struct ValuePrinter;
  friend struct StatementPrinter;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_PRINT_H_
