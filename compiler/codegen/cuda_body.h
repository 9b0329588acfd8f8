// The bodies of a CUDA nest: what later passes of a row read stays in registers or shared memory,
// transposed operands come from tiles.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/codegen/body.h"
#include "compiler/codegen/cuda_tiles.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

inline constexpr ArgumentStyle CudaArguments(bool wide_index) {
  return {"args.b[$0]", "args.n[$0]", wide_index ? "int64_t" : "int", " __restrict__"};
}

// In the text, `k` is the number of a thread's vector in a row, `lane` the thread's number in its
// group.
class CudaBody : public BodyEmitter {
 public:
  CudaBody(const Program& program, const Nest& nest, KernelInterface* interface,
           const CudaPlan& plan);

  // Bytes of dynamic shared memory that the rows of this nest take.
  int shared_bytes() const { return shared_bytes_; }
  // The statements that load a row ahead, of its scalars and of vector k; and those by which it
  // becomes the present one.
  struct RowAhead {
    std::vector<std::string> load_scalars, load_vectors, take_scalars, take_vectors;
    bool empty() const { return load_scalars.empty() && load_vectors.empty(); }
  };
  const RowAhead& row_ahead() const { return row_ahead_; }
  // The statements that load vector k before any vector is stored.
  const std::vector<std::string>& first_loads() const { return first_loads_; }
  // The same, of which scalars of the row say where or whether.
  const std::vector<std::string>& found_loads() const { return found_loads_; }

  // Of the operands that the body reads from tiles, by position in the plan.
  const std::map<size_t, TileFill>& tile_fills() const { return tile_fills_; }

 protected:
  std::string ReadLocal(BufferId buffer) override;
  bool ComputesAgain(BufferId buffer) const override { return again_.count(buffer) != 0; }
  bool KeepsStored(BufferId buffer) const override { return stored_.count(buffer) != 0; }
  std::string WriteLocal(BufferId buffer, const std::string& value) override;
  bool LoadsAtOnce(const Expr& index) const override { return IsRun(index); }
  std::string SpecialLoad(const Inst& inst, const std::string& address,
                          const Expr& stride) override;
  std::string RunLoad(const Inst& inst) const override;
  std::string DefineLoad(const Inst& inst, const std::string& text) override;
  std::string DefineScalarLoad(const Inst& inst, int level, const std::string& text) override;
  std::string SpecialCompute(const Inst& inst) override;
  std::string LaneStep() const override { return plan_.is_interleaved() ? "G" : ""; }
  bool AddsAreAtomic() const override { return true; }
  std::string Once(const std::string& statement) override;

 private:
  // Whether vectors of `e`, which grows by one from lane to lane, start at multiples of the width.
  bool IsRun(const Expr& e) const;
  // A comparison of an index with zero that comes out the same in all lanes.
  std::string CommonComparison(const Inst& inst);
  // An index compared with what is the same in all lanes: one element of a row, say.
  std::string EqualIndex(const Inst& inst);
  // x - where(index == i, a, 0), of which few vectors have such an index.
  std::string SubtractAtIndex(const Inst& inst);
  // Where and how an index is compared with what is the same in all lanes: "distance, step"; ""
  // where it is not.
  std::string Distance(const Inst& equal);
  // A random number compared with a constant: a comparison of its word.
  std::string RandomComparison(const Inst& inst);
  // "seed, stream, first" of a run of random numbers; "" where they are not one.
  std::string RunArguments(const Inst& inst);
  // Random numbers of neighbouring elements, which share their words.
  std::string RandomRun(const Inst& inst);
  std::string RowArray(BufferId buffer);
  // Whether the next row's load can be issued before the present row is done.
  bool IsAhead(const Inst& inst) const;
  // Whether the row's vectors are all loaded before any is stored.
  bool LoadsFirst(const Inst& inst);

  const CudaPlan& plan_;
  const std::set<BufferId> again_;
  const bool is_rare_;         // rows that are not wanted are not loaded
  std::set<BufferId> stored_;  // results that are kept for later passes
  std::map<BufferId, std::string> row_arrays_;
  // Loads that several passes make: kept by the first of them.
  std::set<std::pair<BufferId, Expr>> repeated_;
  std::map<std::pair<BufferId, Expr>, std::pair<std::string, int>> kept_;  // -> array, position
  RowAhead row_ahead_;
  std::map<std::pair<BufferId, Expr>, std::string> ahead_;  // -> the present row's
  std::vector<std::string> first_loads_, found_loads_;
  // By their text, in which equal names are equal values: tensors that say where to load have
  // numbers of each member's own.
  std::map<std::string, std::string> loaded_;  // -> the array
  std::map<size_t, TileFill> tile_fills_;
  int shared_bytes_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_
