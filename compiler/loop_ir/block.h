// SPDX-License-Identifier: Apache-2.0
// Straight-line code of one loop body: what a define-by-run body leaves behind when it is run by
// the Recorder. Analyses, the printer and the emitters walk this list.
#ifndef TENSORD_COMPILER_LOOP_IR_BLOCK_H_
#define TENSORD_COMPILER_LOOP_IR_BLOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/graph/dtype.h"
#include "compiler/loop_ir/data_check.h"
#include "compiler/loop_ir/ops.h"
#include "compiler/sym/expr.h"

namespace tensord::compiler {

using sym::Expr;
using BufferId = int;

// A value inside a body: the number of the instruction that makes it, and its compute type (never a
// narrow float; truth values are kBool).
struct Value {
  int id = -1;
  DType dtype = v1::DTYPE_UNSPECIFIED;
};

enum class InstKind : uint8_t {
  kConstant,  // `number` (or `integer` for integer and bool types)
  kIndex,     // the integer expression `index` as a value
  kLoad,      // storage type of the buffer -> compute type, at element `index` of its storage
  kCompute,   // `op` of args
  kCast,      // args[0] to `dtype`
  kBitcast,   // args[0]'s bits as `dtype`, of one width
  kIndirect,  // makes args[0] usable in expressions as symbol `symbol` in [0, index)
  kCheck,     // args[0], a number that eager refuses where it is not as `check` says
  kRound,  // args[0] rounded to the storage type `storage` and back: what a store and load would do
  kScan,   // `op` of args[0] in all iterations of the scanned loops up to this one (MayScan)
};

// What becomes of an index value that is out of range.
struct IndexRule {
  bool wraps = false;       // negative values count from the end: in range down to -size
  bool is_checked = false;  // others are the caller's fault, which the run reports; else clamped
  int dimension = kClass;   // what it is an index of, for the report

  static constexpr int kClass = -1;  // a target of a loss
  friend bool operator==(const IndexRule&, const IndexRule&) = default;
};

struct Inst {
  InstKind kind;
  Op op = Op::k_add;
  DType dtype = v1::DTYPE_UNSPECIFIED;    // of the result
  DType storage = v1::DTYPE_UNSPECIFIED;  // kLoad, kRound: the storage type
  std::vector<int> args;
  Expr index;
  BufferId buffer = -1;
  double number = 0;
  int64_t integer = 0;
  int symbol = -1;  // kIndirect: the id of its sym::AtomKind::kIndirect symbol
  int guard = -1;  // kLoad, kIndirect, kCheck: the truth value under which it may happen; -1 always
  DataCheck check = DataCheck::kDivisor;  // kCheck
  // kIndirect: where it is checked, args[1] is the index as it was given, and where that is out of
  // range under the guard, the run fails. args[0], which never is, is for those who do not check.
  IndexRule rule;
  // kScan: one element after the other, wherever another order could overflow or underflow.
  bool in_order = false;
};

// Whether prefixes of this operation may be taken: it is associative, but for rounding, and has a
// neutral element.
bool MayScan(Op op);

struct Block {
  std::vector<Inst> insts;
};

// Instructions of one block whose keys are equal make the same value: all that they are but for the
// symbol, which is a name.
using InstKey = std::tuple<int, int, int, int, std::vector<int>, Expr, int, uint64_t, int64_t, int,
                           int, bool, bool, int, bool>;
InstKey KeyOf(const Inst& inst);

// Runs bodies and appends what they do to a block, with common subexpressions found once.
class Recorder {
 public:
  // How much of a float32 matters.
  enum Precision : uint8_t {
    kAll,
    // Of scores, whose operands have 16 bits, and of weights that are exponentials of them: what is
    // small may be off by roundings of 1.
    kOfScores,
  };
  explicit Recorder(Block* block, int first_indirect_symbol = 0, Precision precision = kAll)
      : block_(block), precision_(precision), next_symbol_(first_indirect_symbol) {}

  // Which part of complex numbers the body that is run gives: 0 the real one, 1 the imaginary one.
  // A body that only moves elements is run for each, and loads of complex tensors give that part.
  int part() const { return part_; }

  // Of a complex type: the number's present part.
  Value Constant(double value, DType dtype);
  Value ConstantInt(int64_t value, DType dtype);
  // An integer expression as a value of type `dtype` (kInt64 unless said otherwise).
  Value Index(const Expr& expr, DType dtype = kInt64);
  // Element `index` (counted from the start of the buffer's storage) of a buffer of type `storage`.
  Value Load(BufferId buffer, DType storage, const Expr& index);
  Value Compute(Op op, std::vector<Value> args);
  Value Cast(Value value, DType to);  // `to` may be a narrow float: rounds to it, result float32
  // What reading `value` back from memory of type `storage` gives. Unlike Cast it rounds what was
  // loaded too, for a kernel may use the value itself where it has just computed it.
  Value Stored(Value value, DType storage);
  Value Bitcast(Value value, DType to);
  // Only in the body of a loop operation that scans (Builder::Scan).
  Value Scan(Op op, Value value, bool in_order = false);
  // An index value made usable in expressions, in [0, size) whatever the value, so that no load
  // leaves its buffer. Values are checked only where it also holds that `when`.
  Expr Indirect(Value index, const Expr& size, const IndexRule& rule = {},
                std::optional<Value> when = {});
  // An integer that something is divided by, which must not be 0 where the present guard holds,
  // else the run fails.
  Value Nonzero(Value divisor);
  // A number of which `check` must hold where the present guard does, else the run fails.
  Value Checked(DataCheck check, Value value);
  // `body` where `mask` holds (its loads happen only there), else `other`.
  Value Masked(Value mask, const std::function<Value()>& body, Value other);

  // Short forms.
  Value Add(Value a, Value b) { return Compute(Op::k_add, {a, b}); }
  Value Sub(Value a, Value b) { return Compute(Op::k_sub, {a, b}); }
  Value Mul(Value a, Value b) { return Compute(Op::k_mul, {a, b}); }
  Value Div(Value a, Value b) { return Compute(Op::k_div, {a, b}); }
  Value Where(Value c, Value a, Value b) { return Compute(Op::k_where, {c, a, b}); }

 private:
  friend class PartScope;
  Value Append(Inst inst);
  // The present guard, and that `condition` holds.
  Value GuardWith(Value condition);
  std::optional<Value> SimplifyTanh(Op op, Value a, Value b);
  std::optional<Value> SimplifyOfScores(Op op, const std::vector<Value>& args);

  Block* block_;
  Precision precision_;
  std::map<InstKey, int> known_;
  int guard_ = -1;
  int next_symbol_ = 0;
  int part_ = 0;
};

// While it lives, bodies give this part of complex numbers.
class PartScope {
 public:
  PartScope(Recorder& ops, int part) : ops_(ops), outer_(ops.part_) { ops_.part_ = part; }
  ~PartScope() { ops_.part_ = outer_; }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  Recorder& ops_;
  const int outer_;
};

// For people and golden tests.
std::string ToString(const Block& block);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_BLOCK_H_
