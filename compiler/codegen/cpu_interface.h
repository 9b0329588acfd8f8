// The arguments of one generated kernel, collected while its text is made.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_INTERFACE_H_
#define TENSORD_COMPILER_CODEGEN_CPU_INTERFACE_H_

#include <string>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

class KernelInterface {
 public:
  // Position of a buffer among the kernel's pointers; the pointer is called "b<position>".
  int Buffer(BufferId id);
  void MarkWritten(BufferId id);
  // Position of an integer argument; its name is "n<position>". Loop extents get one each, so that
  // the text does not depend on them.
  int Integer(const Expr& value);
  // Bytes of per-thread scratch, 64-aligned; returns the offset as C++ text.
  std::string Scratch(const Expr& bytes);

  const std::vector<BufferId>& buffers() const { return buffers_; }
  const std::vector<BufferId>& written() const { return written_; }
  const std::vector<Expr>& integers() const { return integers_; }
  const Expr& scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<BufferId> buffers_, written_;
  std::vector<Expr> integers_;
  Expr scratch_bytes_ = Expr(0);
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_INTERFACE_H_
