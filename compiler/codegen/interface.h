// The arguments of one generated kernel, collected while its text is made.
#ifndef TENSORD_COMPILER_CODEGEN_INTERFACE_H_
#define TENSORD_COMPILER_CODEGEN_INTERFACE_H_

#include <string>
#include <vector>

#include "compiler/schedule/launch.h"

namespace tensord::compiler {

// How the text of a kernel reaches its arguments; "$0" stands for their position.
struct ArgumentStyle {
  const char* pointer;   // "args->buffers[$0]"
  const char* integer;   // "args->integers[$0]"
  const char* index;     // the type of indices and sizes
  const char* restrict;  // a qualifier of pointers, or ""
};
inline constexpr ArgumentStyle kCpuArguments{"args->buffers[$0]", "args->integers[$0]", "int64_t",
                                             ""};

class KernelInterface {
 public:
  explicit KernelInterface(ArgumentStyle style) : style_(style) {}

  // Position of a buffer among the kernel's pointers; the pointer is called "b<position>".
  int Buffer(BufferId id);
  void MarkWritten(BufferId id);
  // Position of an integer argument; its name is "n<position>". Loop extents get one each, so that
  // the text does not depend on them.
  int Integer(const Expr& value);
  // Arguments that the text finds by a number of its own, all together and in this order, whether
  // or not others are the same; the position of the first.
  int AppendBuffers(const std::vector<BufferId>& ids);
  int AppendIntegers(const std::vector<Expr>& values);
  // `const TYPE n<slot> = ...;` and `TYPE* const b<slot> = ...;`
  std::string DeclareInteger(int slot) const;
  std::string DeclarePointer(int slot, const std::string& type, bool written) const;

  // Bytes of scratch, 64-aligned, of each thread (CPU) or of the launch (CUDA); returns the offset,
  // or the offset as C++ text.
  Expr ReserveScratch(const Expr& bytes);
  std::string Scratch(const Expr& bytes);

  // Counters of blocks, which are zero at the start and at the end of the launch (CUDA); the number
  // of the first.
  Expr ReserveCounters(const Expr& count);

  const LaunchInterface& launch() const { return launch_; }
  const std::vector<BufferId>& buffers() const { return launch_.buffers; }
  const std::vector<Expr>& integers() const { return launch_.integers; }
  const Expr& scratch_bytes() const { return launch_.scratch_bytes; }
  const Expr& counters() const { return launch_.counters; }

 private:
  ArgumentStyle style_;
  LaunchInterface launch_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_INTERFACE_H_
