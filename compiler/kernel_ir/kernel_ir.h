// SPDX-License-Identifier: Apache-2.0
// The kernel IR: what stands between the nests of a schedule and the text of a kernel.
//
// A kernel has functions, which blocks of threads (CUDA) or tasks (CPU) run, and entries, which a
// launch starts. Everything is decided here: the printers of codegen/ only spell it.
#ifndef TENSORD_COMPILER_KERNEL_IR_KERNEL_IR_H_
#define TENSORD_COMPILER_KERNEL_IR_KERNEL_IR_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/kernel_ir/value.h"

namespace tensord::compiler::ir {

struct Statement;
using Block = std::vector<Statement>;

// The pointer to a buffer, by its position among the launch's: that of its first element.
struct BindPointer {
  std::string name;
  Type type;  // of the pointer; constant: the kernel does not write through it
  Value position;
};

// An integer of the launch, by its position.
struct BindInteger {
  std::string name;
  Value position;
};

// Bytes [offset, offset + bytes) of the function's shared memory, which no other name has.
struct BindShared {
  std::string name;
  Type type;  // a pointer
  int offset = 0;
  int bytes = 0;
};

// Names for values, which are computed in this order.
struct Declare {
  enum Mutability : uint8_t { kConstant, kVariable, kConstexpr };
  struct Binding {
    std::string name;
    Value value;
  };
  std::vector<Binding> bindings;
  std::optional<Type> type;  // that of the values where there is none
  Mutability mutability = kConstant;
};

// Variables without a value yet, of one thread; all of one type.
struct DeclareArray {
  Type type;
  Value like;  // where there is one, the elements have its type, not `type`
  struct Array {
    std::string name;
    Value count;  // elements; none: a plain variable
  };
  std::vector<Array> arrays;
  int alignment = 0;  // bytes; 0: the type's
};

// A type of tiles in shared memory (kernels/cuda/tile.cuh).
struct DeclareTile {
  std::string name;
  DType storage;
  int along, across, run;  // elements
};

// A function that sees the names around it.
struct Parameter {
  std::string name;
  Type type;
  bool constant = false;
};

struct LocalFunction {
  std::string name;
  std::vector<Parameter> parameters;
  Type result;
  Block body;
};

// target = value; or target += value and so on.
struct Assign {
  Value target, value;
  std::optional<BinaryOp> op;
};

// A call for its effect.
struct Run {
  Value call;
};

struct For {
  // Copies of the body that are laid out after each other: 0: as the compiler likes; kWhole: all.
  static constexpr int kWhole = -1;
  std::string variable;
  Type type = kIndexType;  // of the variable
  Value first;             // none: the variable is there, and keeps its value behind the loop
  Value condition;
  Value step;
  Block body;
  int unroll = 0;
};

struct If {
  Value condition;
  Block then, otherwise;
};

struct Scope {
  Block body;
};

// All threads of the block meet.
struct Barrier {};

struct Return {
  Value value;  // may be none
};

// Leaves the innermost loop.
struct Break {};

struct Statement {
  std::variant<BindPointer, BindInteger, BindShared, Declare, DeclareArray, DeclareTile,
               LocalFunction, Assign, Run, For, If, Scope, Barrier, Return, Break>
      node;
};

// What runs a function, and how it is called.
enum class Role : uint8_t {
  kNest,    // CPU: units [begin, end) of a nest; CUDA: one of its blocks
  kFinish,  // combines what tasks or blocks have left
  kShared,  // CUDA: calls the nest function of several nests for the one that a block belongs to
};

struct Function {
  std::string name;
  Role role = Role::kNest;
  std::vector<Parameter> parameters;
  Block body;
  std::string space;  // the namespace that it is in; functions that follow each other share one
  // CUDA: threads of a block, of a group that works together, bytes of dynamic shared memory.
  int threads = 1, group = 1, shared_bytes = 0;
};

// CPU: a nest is run in tasks, each of a share of its units.
struct CpuNest {
  std::string function;
  Value units;         // how many
  Value work;          // elementary operations, roughly
  std::string finish;  // the function that combines the tasks' results, or ""
};

// The one entry of a CPU kernel: how many tasks there are, and what they run.
struct CpuEntry {
  std::string name;
  int64_t work_of_task = 0;  // less is not worth a second task
  Block integers;            // that units, work and stride are made of
  Value stride;              // bytes of scratch memory of a task
  std::vector<CpuNest> nests;
};

// A CUDA entry deals its blocks out to `parts`, in order.
struct CudaEntry {
  struct Part {
    Value call;
    Value blocks;  // how many; none: it is the only part
  };
  std::string name;
  int threads = 0;        // of a block
  int resident = 1;       // blocks that a multiprocessor has room for
  int shared_bytes = 0;   // dynamic shared memory of a block
  bool waits = false;     // for the launches before it
  bool finishes = false;  // it combines what blocks of another one left
  std::vector<Part> parts;
};

struct Kernel {
  enum Device : uint8_t { kCpu, kCuda } device = kCpu;
  bool wide_index = true;           // indices have 64 bits, not 32
  std::vector<Function> functions;  // in an order in which each is defined before it is called
  std::optional<CpuEntry> cpu;
  std::vector<CudaEntry> cuda;
  // What a launch passes: pointers, of which the kernel writes some, and integers.
  int buffers = 0, integers = 0;
  std::vector<int> written;  // positions
  bool has_scratch = false, has_counters = false;
};

// Short forms of the statements that the lowering makes most.
Statement Let(std::string name, Value value);
Statement LetIndex(std::string name, Value value);
Statement Mutable(std::string name, Value value);
Statement DeclareAll(Type type, std::vector<Declare::Binding> bindings);
Statement Set(Value target, Value value);
Statement Do(Value call);
Statement Loop(std::string variable, Value first, Value condition, Value step, Block body);
Statement When(Value condition, Block then);
void Append(Block* to, const Block& more);

// Calls `visit` for every statement, outer ones first, and for every block's statements in order.
void ForEachStatement(const Block& block, const std::function<void(const Statement&)>& visit);
// Calls `visit` for the values of one statement, not of those inside it.
void ForEachValue(const Statement& statement, const std::function<void(const Value&)>& visit);

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_KERNEL_IR_H_
