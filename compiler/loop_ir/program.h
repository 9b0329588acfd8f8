// SPDX-License-Identifier: Apache-2.0
// A lowered program: buffers and, in order, the operations that fill them. What lowering builds and
// scheduling reads.
#ifndef TENSORD_COMPILER_LOOP_IR_PROGRAM_H_
#define TENSORD_COMPILER_LOOP_IR_PROGRAM_H_

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "compiler/graph/layout.h"
#include "compiler/loop_ir/block.h"

namespace tensord::compiler {

enum class BufferKind : uint8_t {
  kInput,         // a program input; `number` is its position
  kConstant,      // `number` indexes the graph's constants
  kComputed,      // filled by LoopOps
  kExternResult,  // allocated and filled by an ExternOp
};

struct BufferInfo {
  BufferKind kind;
  int number = -1;
  DType dtype;  // of its elements, which are real numbers
  v1::DeviceType device = v1::DEVICE_TYPE_CPU;
  // Layout of the whole buffer, in elements. Element 0 of the storage of a computed buffer is its
  // first element; for an input, indices count from its first element too (offset applied).
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  // Outside of kernels its elements are complex numbers: the last dimension, of size 2 and stride
  // 1, is their real and imaginary parts.
  bool is_complex = false;
  std::string name;       // for people: the captured node it came from
  bool returned = false;  // the storage is (part of) an output, so it outlives the call
};

// What becomes of the element that is there: replaced, or combined with the value in one step. NaN
// wins over all numbers.
enum class StoreMode : uint8_t { kAssign, kAtomicAdd, kAtomicMul, kAtomicMin, kAtomicMax };

struct Store {
  BufferId buffer;
  Expr index;  // element in the buffer
  int value;   // instruction
  StoreMode mode = StoreMode::kAssign;
  int guard = -1;  // truth value under which it happens; -1 always
};

enum class ReduceKind : uint8_t {
  kSum,
  kProd,
  kMin,
  kMax,
  kAny,
  kAll,
  kArgMin,  // results: index (first of equals; NaN wins)
  kArgMax,
  kWelford,        // results: mean, sum of squared differences from it (not divided)
  kOnlineSoftmax,  // float32; results: maximum m, sum of exp(x - m)
};

struct Reduction {
  ReduceKind kind;
  int value;  // instruction; its dtype is the accumulator's
  // One per result, in the order given at the kind. -1: that result is not wanted.
  std::vector<BufferId> results;
  std::vector<Expr> indices;  // element of each result, free of the reduced loops
};

// One loop nest: `sizes` are its independent loops, `reduce_sizes` those that are reduced away, or
// scanned: run in their order, with a store in each iteration. Loop d is the symbol
// sym::Expr::Loop(d, extent): first the independent ones, then the others. Either stores, whose
// values may be scans (kScan) where there are scanned loops, or one reduction.
struct LoopOp {
  std::vector<Expr> sizes;
  std::vector<Expr> reduce_sizes;
  Block block;
  std::vector<Store> stores;
  std::vector<Reduction> reductions;  // at most one as built; fusion may give more
  std::string origin;                 // for people: captured nodes, comma-separated
};

// Whether its `reduce_sizes` are scanned, not reduced away.
inline bool Scans(const LoopOp& op) { return !op.reduce_sizes.empty() && op.reductions.empty(); }

// A call of a library operator. Tensor arguments are views of buffers.
struct BufferView {
  BufferId buffer = -1;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;  // elements from the buffer's first element
  // It is of complex numbers, whether the buffer is or not; then sizes, strides and the offset
  // count these, and each is two elements of the buffer.
  bool is_complex = false;
};

// A view of complex numbers as one of real ones, with a last dimension of two parts; others stay.
BufferView ViewOfParts(BufferView view);
// The view of a whole buffer.
BufferView ViewOfBuffer(BufferId id, const BufferInfo& buffer);

struct ExternArg;
using ExternArgList = std::vector<ExternArg>;
struct ExternArg {
  // Anything but tensors stays as it was captured.
  std::variant<v1::Argument, BufferView, ExternArgList> value;
};

// Calls visit(view) for every tensor argument, also inside lists.
void ForEachView(const ExternArgList& args, const std::function<void(const BufferView&)>& visit);
// Whether the argument at this place is true.
bool IsTrue(const ExternArgList& args, size_t place);

// Attention that a kernel of ours computes in the call's place, a tile of scores at a time. The
// call's first arguments are queries, keys and values, all [batch, heads, rows, width], in backward
// the result's gradient, and the lists of blocks (counts and numbers, of the partial and maybe of
// the whole ones); others are what the functions read besides.
struct Attention {
  enum Kind : uint8_t {
    kForward,        // outs: result, log of sums of exponentials, largest scores
    kQueryGradient,  // outs: gradient of queries
    kKeyGradients,   // outs: gradients of keys and of values
  } kind;
  // Of loops (batch, head, query, key), each with one store: of a score; in backward of a product's
  // gradient, for keys of the softmax's weight behind it. First for partial blocks, then for whole
  // ones.
  std::vector<LoopOp> functions;
  // What stands in them for the products: of queries and keys; of gradients and values.
  std::vector<BufferId> products;
  int lists = 0;                              // of blocks: 0, 2 or 4 arguments
  int64_t block_queries = 1, block_keys = 1;  // of a block
};

struct ExternOp {
  std::string op;        // "aten::mm"
  std::string overload;  // "out" where there are `outs`
  ExternArgList args;
  std::vector<BufferId> results;  // -1: absent
  // What of the results' buffers (kComputed) the operator fills, as its last arguments; empty: it
  // allocates them itself.
  std::vector<BufferView> outs;
  // The argument that is read element by element where the result is written, so that the one
  // output may have its memory; -1: none.
  int overwrites = -1;
  std::vector<BufferId> mutated;  // inputs or buffers that it writes besides
  // What a call before it reads in the background until this one ends. To all that asks what is
  // read when, it is as if this one read it.
  std::vector<BufferId> ends_reading;
  // It acts besides its results: it runs even where nobody reads them, and after those before it of
  // which that is true.
  bool ordered = false;
  std::string origin;
  std::shared_ptr<const Attention> attention;  // null: the library is called
};

using Operation = std::variant<LoopOp, ExternOp>;

struct ProgramOutput {
  enum Kind { kTensor, kInteger, kNone } kind = kNone;
  BufferView view;
  // Results with one number are one tensor. Others are tensors of their own, also where they show
  // the same memory alike: what autograd notes of one is not said of the other. An input that is
  // given out has its number among the inputs.
  int tensor = 0;
  // Of the result, where it shows the buffer's memory as another type: sizes, strides and offset of
  // `view` count elements of this one then. Unspecified: the buffer's.
  DType dtype = v1::DTYPE_UNSPECIFIED;
  Expr integer;
};

struct Program {
  std::vector<BufferInfo> buffers;
  std::vector<Operation> operations;
  std::vector<ProgramOutput> outputs;
};

// The number of elements of a buffer's storage (1 + sum of (size-1)*stride; 0 when a size is 0).
Expr StorageElements(const std::vector<Expr>& sizes, const std::vector<Expr>& strides);
// Bytes of one buffer with sizes at their hints.
int64_t BufferBytes(const BufferInfo& buffer);

// Every invariant of the IR. Internal, naming the origin of the operation that breaks one.
absl::Status VerifyProgram(const Program& program);
std::string ToString(const Program& program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_PROGRAM_H_
