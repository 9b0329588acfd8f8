// Emits the bodies of a nest's members: one instruction after the other, each at the outermost loop
// level at which its operands are known.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
#define TENSORD_COMPILER_CODEGEN_CPU_BODY_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cpu_interface.h"
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

  int vector_level() const { return static_cast<int>(nest_.inner.size()); }
  std::vector<std::string>& lines(int level) { return lines_[level]; }

  // Starts emitting a pass: forgets values inside loops; `tail`: the last, partial vector (its lane
  // count is called `left`).
  void BeginPass(bool tail);
  void SetMember(const NestMember* member);

  // A load that steps by one along the last outer loop and further along the vector loop.
  bool IsTransposed(const Inst& inst) const;
  // From here on such loads read the rows of local tiles. EndTiles gives the statements that fill
  // the tiles, for the outer and vector loops at the tile's first element, and forgets the scalars
  // of the unit, for the same members are then emitted without tiles.
  void BeginTiles();
  std::vector<std::string> EndTiles();

  // Emits what instruction `id` of the current member needs and returns its value.
  EmittedValue Emit(int id);
  // Its text as an operand at `level`: a vector at the vector level.
  std::string Use(const EmittedValue& value, int level) const;
  // Defines a variable at a level (or finds the one with this text).
  std::string Define(int level, const std::string& text);

  void EmitStore(const Store& store, bool keep_for_later_pass);
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

 private:
  int LevelOf(const Expr& e);
  EmittedValue EmitLoad(const Inst& inst);
  EmittedValue EmitUncached(int id);
  // int64 lanes of an expression that varies in the vector loop.
  std::string VectorText(const Expr& e);
  std::string TileText(const Inst& inst, const std::string& pointer, const Expr& stride);
  std::string VectorAtom(const sym::Atom& atom);
  std::string Pointer(BufferId id, bool writes);
  std::string RowArray(BufferId id);
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
  std::map<BufferId, std::string> row_arrays_;    // local buffers that a later pass reads
  std::set<int> used_integers_;
  std::map<BufferId, bool> used_buffers_;  // -> written
  std::string array_declarations_;
  bool tail_ = false;
  bool tiles_ = false;
  std::map<std::string, std::string> tile_of_;  // operand and index -> array
  std::vector<std::string> tile_lines_;
  int next_name_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_BODY_H_
