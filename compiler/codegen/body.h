// Emits the bodies of a nest's members: one instruction after the other, each at the outermost loop
// level at which its operands are known. A vector is what one CPU thread's SIMD register, or what
// one CUDA thread holds; what differs between targets is in cpu_body.h and cuda_body.h.
#ifndef TENSORD_COMPILER_CODEGEN_BODY_H_
#define TENSORD_COMPILER_CODEGEN_BODY_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// A computed value in the generated text. At the vector level its type is tk::Vec<T, W>, elsewhere
// tk::Vec<T, 1>. Constants have a literal instead of a name.
struct EmittedValue {
  std::string name;
  std::string literal;
  int level = 0;
  DType dtype = v1::DTYPE_UNSPECIFIED;
};

// The text of one nest function while it grows. Level 0 is the unit (row), level q + 1 the inside
// of inner loop q; the last level, `vector_level()`, is inside the vector loop.
class BodyEmitter {
 public:
  BodyEmitter(const Program& program, const Nest& nest, KernelInterface* interface);
  virtual ~BodyEmitter() = default;

  int vector_level() const { return static_cast<int>(nest_.inner.size()); }
  std::vector<std::string>& lines(int level) { return lines_[level]; }

  // Starts emitting a pass: forgets values inside loops; `tail`: the last, partial vector (its lane
  // count is called `left`).
  void BeginPass(bool tail);
  void SetMember(const NestMember* member);

  // Emits what instruction `id` of the current member needs and returns its value.
  EmittedValue Emit(int id);
  // Its text as an operand at `level`: a vector at the vector level.
  std::string Use(const EmittedValue& value, int level) const;
  // Defines a variable at a level (or finds the one with this text).
  std::string Define(int level, const std::string& text);

  void EmitStore(const Store& store, bool keep_for_later_pass);
  // Stores a vector of finished results at `index`, which steps along the vector loop.
  void EmitColumns(BufferId buffer, const Expr& index, const std::string& vector);
  // Writes a scalar row result (level 0) to memory unless its buffer is local; remembers it.
  void EmitRowResult(BufferId buffer, const Expr& index, const EmittedValue& value);

  // Scalar C++ text of an expression of loops, sizes and scalar indirect indices.
  std::string ScalarText(const Expr& e);
  // An extent: a literal, or an integer argument when symbolic.
  std::string ExtentText(const Expr& extent);
  // An integer argument, whatever its value: for extents that the text must not depend on.
  std::string ArgumentText(const Expr& value);

  // Linear position in the inner iteration space, as scalar text.
  std::string InnerPosition();

  // Declarations of the pointers and integers that were used, and of row arrays.
  std::string Declarations() const;

  // "tk::mask_first<W>(left)" in a tail.
  bool tail() const { return tail_; }

 protected:
  // ---- What targets do differently

  // The vector of a buffer that is local to the nest and was stored in an earlier pass.
  virtual std::string ReadLocal(BufferId buffer) = 0;
  // Whether such a buffer's values are computed again where they are read.
  virtual bool ComputesAgain(BufferId /*buffer*/) const { return false; }
  // Whether a result that goes to memory is kept besides, so that later passes need not read it.
  virtual bool KeepsStored(BufferId /*buffer*/) const { return false; }
  // The statement that keeps a vector of such a buffer for later passes.
  virtual std::string WriteLocal(BufferId buffer, const std::string& value) = 0;
  // What loads a vector of neighbours: "load", or what needs no alignment.
  virtual std::string RunLoad(const Inst& /*inst*/) const { return "load"; }
  // Whether a vector whose index grows by one from lane to lane may be loaded at once under a
  // guard.
  virtual bool LoadsAtOnce(const Expr& /*index*/) const { return true; }
  // A vector load's text where the target has a better way to the values; `address` is the first
  // element's, `stride` (elements) leads to the next.
  virtual std::string SpecialLoad(const Inst& /*inst*/, const std::string& /*address*/,
                                  const Expr& /*stride*/) {
    return "";
  }
  // How many iterations of the vector loop lie between two lanes, as text; "" for one.
  virtual std::string LaneStep() const { return ""; }
  // The text of a computation at the vector level where the target has a better way than the
  // operation on vectors; "" where it has none.
  virtual std::string SpecialCompute(const Inst& /*inst*/) { return ""; }
  // The name of a vector that was loaded by `text`.
  virtual std::string DefineLoad(const Inst& /*inst*/, const std::string& text) {
    return Define(vector_level(), text);
  }
  // The name of a scalar that was loaded by `text` at a level.
  virtual std::string DefineScalarLoad(const Inst& /*inst*/, int level, const std::string& text) {
    return Define(level, text);
  }
  // Whether units that run side by side may add to one element.
  virtual bool AddsAreAtomic() const { return false; }
  // A statement that is to run once for a unit.
  virtual std::string Once(const std::string& statement) { return statement; }

  const Nest& nest() const { return nest_; }
  const Program& program() const { return program_; }
  KernelInterface* interface() const { return interface_; }
  const NestMember& member() const { return *member_; }
  // The loop that vectors run along; there is one.
  sym::SymbolKey VectorLoop() const {
    return {sym::AtomKind::kLoop, static_cast<int>(nest_.outer.size()) + vector_level() - 1};
  }
  const Inst& InstOf(int id) const { return member_->loops.block.insts[id]; }
  std::string* array_declarations() { return &array_declarations_; }
  // The loop level at which an expression's value is known.
  int LevelOf(const Expr& e);
  // An operand; the number of a random operator as an argument.
  EmittedValue EmitOperand(const Inst& inst, int arg) {
    return IsStream(inst, arg) ? EmitStream(arg) : Emit(arg);
  }
  // Forgets what the unit knows, for its members are emitted once more.
  void ForgetUnit();

 private:
  EmittedValue EmitLoad(const Inst& inst);
  EmittedValue EmitUncached(int id);
  // The value that an earlier member stored to a local buffer, in the current pass.
  EmittedValue EmitAgain(BufferId buffer);
  // The distance of two lanes' elements for which the index grows by `stride` each iteration.
  std::string StepText(const Expr& stride);
  // How an index grows with the vector loop: nothing where it does not, or not evenly.
  std::optional<Expr> VectorStride(const Expr& index);
  // The lanes that take part, of those in `mask` ("": all): "" when these are all of a vector.
  std::string LanesInRange(const std::string& mask) const;
  // The value with a name at the vector level.
  EmittedValue AsVector(EmittedValue value);
  // int64 lanes of an expression that varies in the vector loop.
  std::string VectorText(const Expr& e);
  std::string VectorAtom(const sym::Atom& atom);
  void StoreAt(BufferId buffer, const Expr& element, StoreMode mode, const std::string& text,
               std::string mask, int level);
  std::string Pointer(BufferId id, bool writes);
  // The value that a store needs.
  int Unrounded(const Store& store) const;
  bool IsStream(const Inst& inst, int arg) const;
  EmittedValue EmitStream(int arg);

  const Program& program_;
  const Nest& nest_;
  KernelInterface* interface_;
  std::vector<std::vector<std::string>> lines_;
  std::vector<std::map<std::string, std::string>> known_;  // text -> variable, per level
  const NestMember* member_ = nullptr;
  std::map<std::pair<const NestMember*, int>, EmittedValue> memo_;
  std::map<std::pair<const NestMember*, int>, EmittedValue> indirect_;  // symbol -> index value
  std::map<std::pair<const NestMember*, int>, EmittedValue> streams_;
  std::map<BufferId, EmittedValue> row_values_;   // scalars of the row
  std::map<BufferId, EmittedValue> pass_values_;  // vectors of the current pass
  std::set<int> used_integers_;
  std::map<BufferId, bool> used_buffers_;  // -> written
  std::string array_declarations_;
  bool tail_ = false;
  int next_name_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_BODY_H_
