// SPDX-License-Identifier: Apache-2.0
// Values of the kernel IR: immutable expressions, cheap to copy.
#ifndef TENSORD_COMPILER_KERNEL_IR_VALUE_H_
#define TENSORD_COMPILER_KERNEL_IR_VALUE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compiler/kernel_ir/type.h"
#include "compiler/sym/expr.h"

namespace tensord::compiler::ir {

struct ValueNode;

// An expression with its type; empty where there is none.
class Value {
 public:
  Value() = default;
  Value(int64_t number);                                      // NOLINT: integers are values
  Value(int number) : Value(static_cast<int64_t>(number)) {}  // NOLINT
  explicit Value(ValueNode node);

  explicit operator bool() const { return node_ != nullptr; }
  const ValueNode& operator*() const { return *node_; }
  const ValueNode* operator->() const { return node_.get(); }
  const Type& type() const;

 private:
  std::shared_ptr<const ValueNode> node_;
};

// What a name stands for: a parameter, or what a statement before it declared.
struct Variable {
  std::string name;
};

// What a launch passes beside the pointers and integers that statements bind.
struct Argument {
  enum Kind : uint8_t {
    kScratch,   // bytes of scratch memory
    kCounters,  // of blocks, zero before and after the launch
    kInteger,   // integer number `position`
  };
  Kind kind;
  Value position;
};

// Where a thread stands in its launch.
struct Builtin {
  enum Kind : uint8_t { kThread, kBlock, kBlocks } kind;
};

// A number of a compute type: `number` of floating types, `integer` of others.
struct Literal {
  DType dtype;
  double number;
  int64_t integer;
};

// An integer of index arithmetic, whatever its width.
struct Integer {
  int64_t value;
};

// A symbolic integer; `symbols` says what each of its symbols is.
struct IndexOf {
  Expr expr;
  std::map<sym::SymbolKey, Value> symbols;
};

enum class BinaryOp : uint8_t {
  kAdd,  // of a pointer and an integer: so many elements on
  kSub,
  kMul,
  kDiv,  // truncates
  kMod,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kAnd,     // of conditions; the second is computed where the first holds
  kBitAnd,  // of integers, or lane by lane of masks
};
struct Binary {
  BinaryOp op;
  Value a, b;
};

struct Unary {
  enum Op : uint8_t { kNot, kNegate, kDereference } op;
  Value a;
};

// a where the condition holds, b elsewhere; only one of them is computed.
struct Select {
  Value condition, a, b;
};

// An integer as an element of `type`, of the value's type.
struct Convert {
  Value a;
};

// The same integer, or address, as one of the value's type: what follows is computed in it.
struct Cast {
  Value a;
};

// Bytes of memory as elements of the value's pointer type.
struct Reinterpret {
  Value address;
};

// Either a type or an integer: lanes, threads of a group and the like.
using TemplateArgument = std::variant<Type, Value>;

struct Call {
  enum Target : uint8_t {
    kPrelude,   // a function of prelude.h
    kTile,      // the same, of the tile type `scope` (DeclareTile)
    kFunction,  // of the kernel, or a local one
  };
  Target target;
  std::string function;
  std::vector<TemplateArgument> templates;
  std::vector<Value> operands;
  std::string scope;
};

// A field of a state ("mean"), a vector of as many lanes; or the bytes of group memory.
struct Member {
  Value state;
  std::string field;
};

// One lane of a vector, as a scalar.
struct Lane {
  Value vector;
  int lane;
};

// One element of an array or of memory.
struct Element {
  Value array, index;
};

// A prelude function of two operands, as an operand.
struct Combiner {
  std::string function;
};

// A vector of its lanes, or a state of its fields: of the type of the variable `like` where it has
// one.
struct Make {
  std::vector<Value> parts;
  Value like;
};

struct ValueNode {
  Type type;
  std::variant<Variable, Argument, Builtin, Literal, Integer, IndexOf, Binary, Unary, Select,
               Convert, Cast, Reinterpret, Call, Member, Lane, Element, Combiner, Make>
      node;
};

Value Var(std::string name, Type type);
inline Value IndexVar(std::string name) { return Var(std::move(name), kIndexType); }
inline Value IntVar(std::string name) { return Var(std::move(name), kIntType); }
Value ScratchArgument();
Value CountersArgument();
Value IntegerArgument(Value position);
Value Thread();  // its number in the block
Value UnsignedOf(uint32_t number);
Value NumberOf(DType dtype, double number, int64_t integer);
Value Condition(bool value);
// Constants become integers.
Value Index(const Expr& expr, std::map<sym::SymbolKey, Value> symbols);
Value ConvertTo(Type type, Value a);
Value CastTo(Type type, Value a);
Value ReinterpretAs(Type pointer, Value address);
// The result's type follows from the prelude's table.
Value CallOf(std::string function, std::vector<TemplateArgument> templates,
             std::vector<Value> operands);
inline Value CallOf(std::string function, std::vector<Value> operands) {
  return CallOf(std::move(function), {}, std::move(operands));
}
Value CallOfTile(std::string tile, std::string function, std::vector<TemplateArgument> templates,
                 std::vector<Value> operands, Type result);
Value CallOfFunction(std::string function, std::vector<Value> operands, Type result = kVoidType);
Value FieldOf(Value state, std::string field);
Value LaneOf(Value vector, int lane);
Value At(Value array, Value index);
Value Dereference(Value pointer);
Value CombinerOf(std::string function);
Value VectorOf(Type type, std::vector<Value> lanes);
Value StateLike(Value like, std::vector<Value> fields);
Value Choose(Value condition, Value a, Value b);

Value BinaryOf(BinaryOp op, Value a, Value b);
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator%(const Value& a, const Value& b);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value operator&(const Value& a, const Value& b);
Value operator-(const Value& a);
Value And(const Value& a, const Value& b);
Value Not(const Value& a);

template <class T>
const T* As(const Value& value) {
  return std::get_if<T>(&value->node);
}

// Calls `visit` for the operands of a value, in the order of their text.
void ForEachOperand(const Value& value, const std::function<void(const Value&)>& visit);

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_VALUE_H_
