// The reductions of a CUDA nest: accumulators, their steps, and how threads and blocks combine
// them.
//
// A row reduction lives within a unit: each thread of the group has a vector of partial results; at
// the end of the pass its lanes, then the group's threads are combined, and all threads know the
// result. A reduction over rows outlives units: columns stay with the thread that owns them, totals
// with every thread; when a block has done its rows it leaves one copy in scratch memory. The
// copies are combined in a fixed order: those of a total by the last block to get there, as are the
// parts of a split row; those of columns, which would keep one block longer than a launch takes, by
// a second launch.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda_body.h"

namespace tensord::compiler {

// `static __device__ void NAME(const Args& args, int block, char* shared)` and how many blocks it
// has. It runs behind the nest, in blocks of kFinishThreads; or in the nest's last block, as the
// block of the row that it shares with others.
struct FinishText {
  std::string name, text;
  Expr blocks;
};
inline constexpr int kFinishThreads = 256;

class CudaAccumulators {
 public:
  CudaAccumulators(const Program& program, const Nest& nest, const CudaPlan& plan, CudaBody* body,
                   KernelInterface* interface);

  // Shared memory through which the groups of a block combine their columns; 0: they need none.
  int SharedBytes() const;

  // Whether blocks leave something that another function must combine.
  bool NeedsFinish() const { return !finished_.empty(); }

  std::string DeclareRow(int position) const;
  // The statements of a member's vector, on the body's lines.
  void Accumulate(const NestMember& member);
  void AccumulateRow(const NestMember& member);
  // Combines the group's threads and leaves the pass's scalars to later positions; in a split row
  // it leaves the part's state in scratch memory.
  void EmitRowResults(int position);
  // The vector of columns of a kColumns nest.
  void EmitColumnResults();

  std::string DeclarePrivate();
  std::string SavePrivate();

  std::vector<FinishText> Finish(const std::string& name);
  // The end of a nest whose last block does that.
  std::string FinishInLastBlock(const std::vector<FinishText>& finishes);

 private:
  struct Accumulator {
    const NestMember* member;
    const Reduction* reduction;
    std::string name;
    DType dtype;
    std::string type;            // compute type
    std::string saved;           // what lies in scratch: the type, or the state's
    int64_t bytes = 0;           // of it
    std::optional<Expr> offset;  // there
  };

  // The parts of a column's state, by the names of its members; of a plain value itself.
  static std::vector<std::string> ColumnParts(ReduceKind kind);
  bool IsColumns(const Accumulator& acc) const {
    return acc.member->has_inner && !acc.member->reduces_inner;
  }
  bool IsPrivate(const Accumulator& acc) const { return acc.member->reduces_outer; }
  // What half of the block's groups hand over of one vector, and the vectors of a thread that are
  // combined at once.
  int64_t HandedBytes(const Accumulator& acc) const {
    return plan_.threads / 2 * plan_.width * acc.bytes;
  }
  int CombinedAtOnce(const Accumulator& acc) const;
  std::string Start(const Accumulator& acc, const std::string& lanes) const;
  // Whether the block has several groups of whole warps.
  bool HasParts(int group) const;
  std::string CombineGroup(const Accumulator& acc, const std::string& value, int group) const;
  void EmitState(const Accumulator& acc, const std::string& state, BodyEmitter* body) const;
  // Elements from one copy of a row of columns to the next: whole vectors of any width.
  Expr ColumnStride() const;
  // In a function whose integers `body` declares.
  std::string SavedAt(const Accumulator& acc, BodyEmitter* body) const;
  // Where a part of a column's value lies: every part has an array of its own.
  std::string ColumnAt(const Accumulator& acc, size_t part, const std::string& copy,
                       BodyEmitter* body) const;
  // Of the accumulators of a sweep.
  const Expr& Copies() const { return plan_.As<CudaSweep>()->copies; }
  int FinishThreads() const {
    return plan_.combines_in_last_block() ? plan_.threads : kFinishThreads;
  }
  FinishText FinishTotal(const Accumulator& acc, const std::string& name);
  FinishText FinishColumns(const std::vector<const Accumulator*>& columns, const std::string& name);
  FinishText FinishSplit(const std::string& name);

  const Program& program_;
  const Nest& nest_;
  const CudaPlan& plan_;
  CudaBody* body_;
  KernelInterface* interface_;
  std::vector<Accumulator> all_;
  std::vector<const Accumulator*> finished_;
};

// The outer and inner loop variables of unit `unit`: row loops from a row's number.
std::string DecodeLoops(BodyEmitter* body, const std::vector<Expr>& extents, int first_loop,
                        const std::string& number, const std::string& indent, int last_width = 1);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
