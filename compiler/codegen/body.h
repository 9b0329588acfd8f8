// SPDX-License-Identifier: Apache-2.0
// Lowers the bodies of a nest's members to the kernel IR: one instruction after the other, each at
// the outermost loop level at which its operands are known. A vector is what one CPU thread's SIMD
// register, or what one CUDA thread holds; what differs between targets is in cpu/body.h and
// cuda/body.h.
#ifndef TENSORD_COMPILER_CODEGEN_BODY_H_
#define TENSORD_COMPILER_CODEGEN_BODY_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/interface.h"
#include "compiler/kernel_ir/builder.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// A computed value: at the vector level a vector of W lanes, elsewhere one of one lane; of a
// constant the number itself.
struct Lowered {
  ir::Value value;
  int level = 0;

  bool IsNumber() const { return ir::As<ir::Literal>(value) != nullptr; }
};

// The name of a loop's variable.
std::string LoopName(int loop);
ir::Value LoopVar(int loop);

// W, the lanes of a vector.
ir::Value Width();
// Elements that are left of a partial vector.
ir::Value Left();
// Its lanes.
ir::Value FirstLanes();

// Which vectors of a pass are lowered, and into which copy of its accumulators.
struct PassPart {
  int copy = 0;
  // After others of the pass, of which the scalars outside the vector loop are known.
  bool again = false;
  // The last, partial vector; its lane count is called `left`.
  bool tail = false;
};

// One nest function while it grows. Level 0 is the unit (row), level q + 1 the inside of inner loop
// q; the last level, `vector_level()`, is inside the vector loop.
class BodyLowering {
 public:
  BodyLowering(const Program& program, const Nest& nest, KernelInterface* interface);
  virtual ~BodyLowering() = default;

  int vector_level() const { return static_cast<int>(nest_.inner.size()); }
  void Add(int level, ir::Statement statement) { builder_.Add(level, std::move(statement)); }
  const ir::Block& at(int level) const { return builder_.at(level); }
  // The statements of the unit; what they define stays known.
  ir::Block TakeUnit() { return builder_.Take(0); }

  // Starts lowering a pass: forgets values inside loops.
  void BeginPass(PassPart part = {});
  void SetMember(const NestMember* member);

  // Lowers what instruction `id` of the current member needs and returns its value.
  Lowered Lower(int id);
  // It as an operand at `level`: a vector at the vector level.
  ir::Value Use(const Lowered& value, int level) const;
  // Defines a variable at a level (or finds the one of an equal value).
  ir::Value Define(int level, const ir::Value& value) { return builder_.Define(level, value); }

  // The stores of a member; `keep_for_later_pass`: whether a later pass reads a buffer back.
  void LowerStores(const NestMember& member,
                   const std::function<bool(BufferId)>& keep_for_later_pass);
  void LowerStore(const Store& store, bool keep_for_later_pass);
  // What later members of the pass read of a store, of which nothing goes to memory.
  void LowerStoredValue(const Store& store);
  // Stores a vector of finished results at `index`, which steps along the vector loop.
  void StoreColumns(BufferId buffer, const Expr& index, const ir::Value& vector);
  // Writes a scalar row result (level 0) to memory unless its buffer is local; remembers it.
  void StoreRowResult(BufferId buffer, const Expr& index, const Lowered& value);

  // An expression of loops, sizes and scalar indirect indices.
  ir::Value Scalar(const Expr& e);
  // An extent: a number, or an integer argument when symbolic.
  ir::Value Extent(const Expr& extent);
  // An integer argument, whatever its value: for extents that the text must not depend on.
  ir::Value Argument(const Expr& value);

  // Linear position in the inner iteration space.
  ir::Value InnerPosition();

  // A vector of neighbours from `at` on, of memory that keeps it aligned; of a tail the lanes that
  // are left.
  ir::Value LoadNeighbours(const ir::Type& storage, const ir::Value& at) const;
  ir::Value StoreNeighbours(const ir::Type& storage, const ir::Value& at,
                            const ir::Value& value) const;

  // The pointers and integers that were used, and arrays.
  ir::Block Declarations() const;

  bool tail() const { return tail_; }

 protected:
  // ---- What targets do differently

  // The array of a row's values of a buffer that is local to the nest, for later passes.
  virtual ir::Value RowArray(BufferId buffer) = 0;
  // The vector of such a buffer, which was stored in an earlier pass.
  virtual ir::Value ReadLocal(BufferId buffer);
  // Whether such a buffer's values are computed again where they are read.
  virtual bool IsRecomputed(BufferId /*buffer*/) const { return false; }
  // Whether a result that goes to memory is kept besides, so that later passes need not read it.
  virtual bool KeepsStored(BufferId /*buffer*/) const { return false; }
  // The statement that keeps a vector of such a buffer for later passes.
  virtual ir::Statement WriteLocal(BufferId buffer, const ir::Value& value);
  // The function that loads a vector of neighbours: "load", or one that needs no alignment.
  virtual std::string RunLoad(const Inst& /*inst*/) const { return "load"; }
  // Whether a vector whose index grows by one from lane to lane may be loaded at once under a
  // guard.
  virtual bool LoadsAtOnce(const Expr& /*index*/) const { return true; }
  // A vector load where the target has a better way to the values; `address` is the first
  // element's, `stride` (elements) leads to the next. None where it has not.
  virtual ir::Value SpecialLoad(const Inst& /*inst*/, const ir::Value& /*address*/,
                                const Expr& /*stride*/) {
    return {};
  }
  // Whether vectors of pairs, of which `index` is the first element and grows by two from lane to
  // lane, may be loaded and stored at once.
  virtual bool PairsAreAligned(const Expr& /*index*/) const { return true; }
  // How many iterations of the vector loop lie between two lanes; none for one.
  virtual ir::Value LaneStep() const { return {}; }
  // A computation at the vector level where the target has a better way than the operation on
  // vectors; none where it has not.
  virtual ir::Value SpecialCompute(const Inst& /*inst*/) { return {}; }
  // The function of the prelude that computes an operation, of operands as the operation has them.
  virtual std::string ComputeFunction(const Inst& inst) const { return InfoOf(inst.op).name; }
  // The name of a vector that is loaded by `load`.
  virtual ir::Value DefineLoad(const Inst& /*inst*/, const ir::Value& load) {
    return Define(vector_level(), load);
  }
  // The name of a scalar that is loaded by `load` at a level.
  virtual ir::Value DefineScalarLoad(const Inst& /*inst*/, int level, const ir::Value& load) {
    return Define(level, load);
  }
  // A checked index that was given as `index`; `on`: the lanes that are checked, all where none.
  virtual ir::Value CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                               const ir::Value& on) = 0;
  // A checked number; `on` as above. Only of what the target checks.
  virtual ir::Value CheckData(DataCheck check, const ir::Value& value, const ir::Value& on) = 0;
  // Whether units that run side by side may add to one element.
  virtual bool AddsAreAtomic() const { return false; }
  // The prefixes that end in the lanes of a vector, by instruction `id` of the current member,
  // which scans along the inner loops.
  virtual ir::Value ScanVector(int id, const ir::Value& vector) = 0;
  // What must come before the statement that stores a value of a row, which its threads have each
  // computed from what they loaded themselves.
  virtual void BeforeRowStore(BufferId /*buffer*/) {}
  // A statement that is to run once for a unit.
  virtual ir::Statement Once(ir::Statement statement) { return statement; }

  const Nest& nest() const { return nest_; }
  const Program& program() const { return program_; }
  KernelInterface* interface() const { return interface_; }
  const NestMember& member() const { return *member_; }
  // The loop that vectors run along; there is one.
  sym::SymbolKey VectorLoop() const { return VectorLoopOf(nest_); }
  const Inst& InstOf(int id) const { return member_->loops.block.insts[id]; }
  void Declare(ir::Statement array) { arrays_.push_back(std::move(array)); }
  // The loop level at which an expression's value is known.
  // The value of an index that was read from memory, by its symbol in the present member.
  const Lowered& Indirect(int symbol);
  int LevelOf(const Expr& e);
  // An operand; the number of a random operator as an argument.
  Lowered LowerOperand(const Inst& inst, int arg) {
    return IsStream(inst, arg) ? LowerStream(arg) : Lower(arg);
  }
  // Forgets what the unit knows, for its members are lowered once more.
  void ForgetUnit();

 private:
  // body.cc: instructions
  Lowered LowerUncached(int id);
  Lowered LowerIndirect(const Inst& inst);
  // `check` of the value in the lanes that there are, under the instruction's guard.
  using Check = std::function<ir::Value(const ir::Value& value, const ir::Value& on)>;
  Lowered LowerCheck(const Inst& inst, Lowered value, const Check& check);
  Lowered LowerScan(int id);
  Lowered LowerArithmetic(const Inst& inst);
  bool IsStream(const Inst& inst, int arg) const;
  Lowered LowerStream(int arg);
  // The value with a name at the vector level.
  Lowered AsVector(Lowered value);

  // body_index.cc: expressions. int64 lanes of one that varies in the vector loop:
  ir::Value Vector(const Expr& e);
  ir::Value VectorAtom(const sym::Atom& atom);
  // The distance of two lanes' elements for which the index grows by `stride` each iteration.
  ir::Value Step(const Expr& stride);
  // How an index grows with the vector loop: nothing where it does not, or not evenly.
  std::optional<Expr> VectorStride(const Expr& index);

  // body_memory.cc: loads and stores
  struct Target;
  Lowered LowerLoad(const Inst& inst);
  ir::Value LoadVector(const Inst& inst, const ir::Value& pointer, const Lowered& guard);
  // Both elements of pairs (the parts of complex numbers) are loaded, or stored, together; null
  // where they are not.
  ir::Value LoadOfPairs(const Inst& inst, const ir::Value& pointer);
  bool LoadsNext(const Inst& inst) const;
  const Store* SecondOfPair(const Store& store) const;
  bool StorePairs(const Store& first, const Store& second);
  bool IsPairIndex(const Expr& first);
  // The value that an earlier member stored to a local buffer, in the current pass.
  Lowered Recompute(BufferId buffer);
  // The lanes that take part, of those in `mask` (none: all): none when these are all of a vector.
  ir::Value LanesInRange(const ir::Value& mask) const;
  void StoreOfRow(BufferId buffer, const Expr& index, const Lowered& value);
  void StoreAt(BufferId buffer, const Expr& element, StoreMode mode, const ir::Value& value,
               const ir::Value& mask, int level);
  ir::Value AtomicAdd(const Target& to, const ir::Value& value, ir::Value mask);
  ir::Value StoreRun(const Target& to, ir::Value value);
  ir::Value StoreScattered(const Target& to, const ir::Value& value, ir::Value mask);
  ir::Value Pointer(BufferId id, bool writes);
  // What the nest goes on with behind a store of `value` (Nest::rounded).
  Lowered Forwarded(BufferId buffer, Lowered value);
  // The same of a store, whose value may have the buffer's precision already.
  Lowered Forwarded(const Store& store, const Lowered& value);
  // The value that a store needs.
  int Unrounded(const Store& store) const;

  const Program& program_;
  const Nest& nest_;
  KernelInterface* interface_;
  ir::LevelBuilder builder_;
  const NestMember* member_ = nullptr;
  std::map<std::pair<const NestMember*, int>, Lowered> memo_;
  std::map<std::pair<const NestMember*, int>, Lowered> indirect_;  // symbol -> index value
  std::map<std::pair<const NestMember*, int>, Lowered> streams_;
  std::map<BufferId, Lowered> row_values_;   // scalars of the row
  std::map<BufferId, Lowered> pass_values_;  // vectors of the current pass
  std::set<int> used_integers_;
  std::map<BufferId, bool> used_buffers_;  // -> written
  ir::Block arrays_;
  bool tail_ = false;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_BODY_H_
