// SPDX-License-Identifier: Apache-2.0
// The bodies of a CUDA nest: what later passes of a row read stays in registers or shared memory,
// transposed operands come from tiles.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/body.h"
#include "compiler/codegen/cuda/scan_totals.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// How an operand's tile is filled: the address of its first element, and the step along the vector
// loop, in terms of the loops at the tile's first element.
struct TileFill {
  ir::Value address, step;
};

// The tile of operand number `operand`, and the name of its type.
ir::Value TileNamed(size_t operand, DType storage);
std::string TileTypeName(size_t operand);

// Whether a thread of a row that is scanned looks whether its vectors exist: it computes the last
// one where they do not, and then neither changes what is scanned nor stores.
bool LooksForVectors(const CudaScanRows& rows);
// Of such a thread: the name of what it finds.
ir::Value VectorExists();
// The part of a row, or of columns, that is scanned: its name.
ir::Value PartNumber();

// Names of every nest function: the number of a thread's vector in its row, and of the thread in
// its group; the threads of a group and of a block.
ir::Value VectorNumber();
ir::Value LaneOfGroup();
ir::Value GroupSize();
ir::Value BlockSize();

class CudaBody : public BodyLowering {
 public:
  CudaBody(const Program& program, const Nest& nest, KernelInterface* interface,
           const CudaPlan& plan);

  // Bytes of dynamic shared memory that the rows of this nest take.
  int shared_bytes() const { return shared_bytes_; }
  // The statements that load the next row, of its scalars and of vector k; and those by which it
  // becomes the present one.
  struct Prefetch {
    ir::Block load_scalars, load_vectors, take_scalars, take_vectors;
    bool empty() const { return load_scalars.empty() && load_vectors.empty(); }
  };
  const Prefetch& prefetch() const { return prefetch_; }
  // The statements that load vector k before any vector is stored.
  const ir::Block& first_loads() const { return first_loads_; }
  // The same, of which scalars of the row say where or whether.
  const ir::Block& found_loads() const { return found_loads_; }

  // An operation on vectors that has a better way where its operands have some form.
  struct Selection {
    Op op;
    const char* form;
    // None where they have not that form.
    ir::Value (CudaBody::*select)(const Inst& inst);
  };
  // All of them: of one operation the first that fits is taken (special_compute.cc).
  static std::span<const Selection> Selections();

  // ---- scans.cc

  // The function finds what parts come to, of scans of depth `launch`; beyond the last launch it
  // scans. Without this call nothing is scanned in parts. `totals` must outlive the body.
  void ScanInParts(const ScanTotals* totals, int launch);
  bool FindsTotals() const { return totals_ != nullptr && launch_ <= totals_->launches(); }
  // Of a member, what its totals and those of members behind it need.
  void LowerTotals(const NestMember& member);
  // Leaves what has been found, behind the loops over a part.
  void SaveTotals();

  // Of the operands that the body reads from tiles, by position in the plan.
  const std::map<size_t, TileFill>& tile_fills() const { return tile_fills_; }

 protected:
  ir::Value RowArray(BufferId buffer) override;
  ir::Value ReadLocal(BufferId buffer) override;
  bool IsRecomputed(BufferId buffer) const override { return recomputed_.count(buffer) != 0; }
  bool KeepsStored(BufferId buffer) const override { return stored_.count(buffer) != 0; }
  ir::Statement WriteLocal(BufferId buffer, const ir::Value& value) override;
  bool LoadsAtOnce(const Expr& index) const override { return IsRun(index); }
  bool PairsAreAligned(const Expr& index) const override;
  ir::Value CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                       const ir::Value& on) override;
  ir::Value CheckData(DataCheck check, const ir::Value& value, const ir::Value& on) override;
  ir::Value SpecialLoad(const Inst& inst, const ir::Value& address, const Expr& stride) override;
  std::string RunLoad(const Inst& inst) const override;
  ir::Value DefineLoad(const Inst& inst, const ir::Value& load) override;
  ir::Value DefineScalarLoad(const Inst& inst, int level, const ir::Value& load) override;
  ir::Value SpecialCompute(const Inst& inst) override;
  ir::Value ScanVector(int id, const ir::Value& vector) override;
  ir::Value LaneStep() const override { return plan_.is_interleaved() ? GroupSize() : ir::Value(); }
  bool AddsAreAtomic() const override { return true; }
  void BeforeRowStore(BufferId buffer) override;
  ir::Statement Once(ir::Statement statement) override;

 private:
  using Access = std::pair<BufferId, Expr>;

  // ---- special_compute.cc

  // Whether vectors of `e`, which grows by one from lane to lane, start at multiples of the width.
  bool IsRun(const Expr& e) const;
  // A comparison of an index with zero that comes out the same in all lanes.
  ir::Value CommonComparison(const Inst& inst);
  // An index compared with what is the same in all lanes: one element of a row, say.
  ir::Value EqualIndex(const Inst& inst);
  // x - where(index == i, a, 0), of which few vectors have such an index.
  ir::Value SubtractAtIndex(const Inst& inst);
  // Where and how an index is compared with what is the same in all lanes: distance and step.
  std::optional<std::pair<ir::Value, ir::Value>> Distance(const Inst& equal);
  // A random number compared with a constant: a comparison of its word.
  ir::Value RandomComparison(const Inst& inst);
  // Seed, stream and first element of a run of random numbers; empty where they are not one.
  std::vector<ir::Value> RunArguments(const Inst& inst);
  // Random numbers of neighbouring elements, which share their words.
  ir::Value RandomRun(const Inst& inst);

  // ---- scans.cc

  // What the elements before the present vectors combine to: of a row a number, which all its
  // threads know; of columns a vector. Of a scan whose total is sought: what those combine to that
  // the thread has seen, a vector.
  const ir::Value& ScannedBefore(int id);
  bool SeeksTotal(int id) const;
  // What the first of a thread's elements is combined with.
  ir::Value StartOf(int id);
  // `before` with the totals of the parts before this one, of columns.
  ir::Statement CombineParts(int id, const ir::Value& before);
  // Where the totals of a scan of the current member lie.
  ir::Value TotalsOf(int id);

  // ---- body.cc

  // Vectors of the row, or rows of the column, that a thread has under way at once.
  int VectorsAtOnce() const;
  // An array of as many.
  ir::Value DeclareVectors(const std::string& name, const ir::Type& type);
  // Whether the next row's load can be issued before the present row is done.
  bool IsPrefetched(const Inst& inst) const;
  // Whether the row's vectors are all loaded before any is stored.
  bool LoadsFirst(const Inst& inst);
  ir::Value DefinePrefetched(const Inst& inst, const ir::Value& load);
  ir::Value DefineLoadedFirst(const Inst& inst, const ir::Value& load, bool is_plain);
  ir::Value DefineKept(const Access& access, const ir::Value& load);

  const CudaPlan& plan_;
  const std::set<BufferId> recomputed_;
  const bool is_rare_;         // rows that are not wanted are not loaded
  std::set<BufferId> stored_;  // results that are kept for later passes
  std::map<BufferId, ir::Value> row_arrays_;
  // Loads that several passes make: kept by the first of them.
  std::set<Access> repeated_;
  std::map<Access, std::pair<ir::Value, int>> kept_;  // -> array, position
  Prefetch prefetch_;
  std::map<Access, ir::Value> present_;  // of the present row, which was loaded before it
  ir::Block first_loads_, found_loads_;
  // By their text, in which equal names are equal values: tensors that say where to load have
  // numbers of each member's own.
  std::map<std::string, ir::Value> loaded_;  // -> the array
  std::map<size_t, TileFill> tile_fills_;
  std::map<std::pair<const NestMember*, int>, ir::Value> scanned_;  // by member and instruction
  const ScanTotals* totals_ = nullptr;                              // null: without parts
  int launch_ = 0;
  int shared_bytes_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_BODY_H_
