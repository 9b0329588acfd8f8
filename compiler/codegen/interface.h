// SPDX-License-Identifier: Apache-2.0
// The arguments of one generated kernel, collected while its functions are made.
#ifndef TENSORD_COMPILER_CODEGEN_INTERFACE_H_
#define TENSORD_COMPILER_CODEGEN_INTERFACE_H_

#include <string>
#include <vector>

#include "compiler/kernel_ir/kernel_ir.h"
#include "compiler/schedule/launch.h"

namespace tensord::compiler {

class KernelInterface {
 public:
  // `shared_function`: it is of a function that serves several nests, which finds its arguments
  // behind those that its parameters first_buffer and first_integer name.
  explicit KernelInterface(bool shared_function = false) : shared_function_(shared_function) {}

  // Position of a buffer among the kernel's pointers; the pointer is called "b<position>".
  int Buffer(BufferId id);
  void MarkWritten(BufferId id);
  // Position of an integer argument; its name is "n<position>". Loop extents get one each, so that
  // the text does not depend on them.
  int Integer(const Expr& value);
  // Arguments that a function finds by a number of its own, all together and in this order, whether
  // or not others are the same; the position of the first.
  int AppendBuffers(const std::vector<BufferId>& ids);
  int AppendIntegers(const std::vector<Expr>& values);

  // The statements that give arguments their names.
  ir::Statement BindInteger(int position) const;
  ir::Statement BindPointer(int position, DType storage, bool written) const;
  static ir::Value IntegerNamed(int position);
  static ir::Value PointerNamed(int position, DType storage, bool written);

  // An expression of sizes, each of them an argument.
  ir::Value OfSizes(const Expr& e);

  // Bytes of scratch, 64-aligned, of each thread (CPU) or of the launch (CUDA); their offset.
  Expr ReserveScratch(const Expr& bytes);
  // Counters of blocks, which are zero at the start and at the end of the launch (CUDA); the number
  // of the first.
  Expr ReserveCounters(const Expr& count);

  const LaunchInterface& launch() const { return launch_; }
  // What a kernel says of its arguments.
  void Describe(ir::Kernel* kernel) const;

 private:
  bool shared_function_;
  LaunchInterface launch_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_INTERFACE_H_
