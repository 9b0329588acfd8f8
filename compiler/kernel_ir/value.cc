// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/value.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/kernel_ir/prelude.h"

namespace tensord::compiler::ir {
namespace {

Value Node(Type type, decltype(ValueNode::node) node) {
  return Value(ValueNode{type, std::move(node)});
}

bool Compares(BinaryOp op) { return op >= BinaryOp::kLess && op <= BinaryOp::kAnd; }

// The wider of two integer types.
Type Wider(const Type& a, const Type& b) {
  for (const TypeKind kind : {TypeKind::kInt64, TypeKind::kIndex, TypeKind::kUnsigned}) {
    if (a.kind == kind || b.kind == kind) return {kind};
  }
  return a;
}

}  // namespace

Value::Value(int64_t number) : Value(ValueNode{kIntType, Integer{number}}) {}
Value::Value(ValueNode node) : node_(std::make_shared<const ValueNode>(std::move(node))) {}
const Type& Value::type() const { return node_->type; }

Value Var(std::string name, Type type) { return Node(type, Variable{std::move(name)}); }
Value ScratchArgument() { return Node(BytesType(), Argument{Argument::kScratch, {}}); }
Value CountersArgument() {
  return Node(PointerTo({TypeKind::kCounter}), Argument{Argument::kCounters, {}});
}
Value IntegerArgument(Value position) {
  return Node(kInt64Type, Argument{Argument::kInteger, std::move(position)});
}
Value Thread() { return Node(kIntType, Builtin{Builtin::kThread}); }

Value UnsignedOf(uint32_t number) { return Node(kUnsignedType, Integer{number}); }
Value NumberOf(DType dtype, double number, int64_t integer) {
  return Node(ScalarType(ComputeType(dtype)), Literal{dtype, number, integer});
}
Value Condition(bool value) { return NumberOf(kBool, 0, value ? 1 : 0); }

Value Index(const Expr& expr, std::map<sym::SymbolKey, Value> symbols) {
  if (const auto constant = expr.AsConstant()) return Value(*constant);
  return Node(kIndexType, IndexOf{expr, std::move(symbols)});
}

Value ConvertTo(Type type, Value a) { return Node(type, Convert{std::move(a)}); }
Value CastTo(Type type, Value a) { return Node(type, Cast{std::move(a)}); }
Value ReinterpretAs(Type pointer, Value address) {
  return Node(pointer, Reinterpret{std::move(address)});
}

Value CallOf(std::string function, std::vector<TemplateArgument> templates,
             std::vector<Value> operands) {
  const PreludeFunction* prelude = FindPrelude(function, templates.size(), operands.size());
  TENSORD_CHECK(prelude != nullptr, "the prelude has no such function: " + function);
  const Type type = ResultType(*prelude, templates, operands);
  return Node(type, Call{Call::kPrelude, std::move(function), std::move(templates),
                         std::move(operands), ""});
}

Value CallOfTile(std::string tile, std::string function, std::vector<TemplateArgument> templates,
                 std::vector<Value> operands, Type result) {
  return Node(result, Call{Call::kTile, std::move(function), std::move(templates),
                           std::move(operands), std::move(tile)});
}

Value CallOfFunction(std::string function, std::vector<Value> operands, Type result) {
  return Node(result, Call{Call::kFunction, std::move(function), {}, std::move(operands), ""});
}

Value FieldOf(Value state, std::string field) {
  const Type of = state.type();
  Type type = field == "index" ? VectorType(kInt64, of.lanes) : VectorType(of.dtype, of.lanes);
  if (of.kind == TypeKind::kGroupMemory) type = BytesType();
  return Node(type, Member{std::move(state), std::move(field)});
}

Value LaneOf(Value vector, int lane) {
  const Type type = ScalarType(vector.type().dtype);
  return Node(type, Lane{std::move(vector), lane});
}

Value At(Value array, Value index) {
  const Type type = Pointee(array.type());
  return Node(type, Element{std::move(array), std::move(index)});
}

Value Dereference(Value pointer) {
  const Type type = Pointee(pointer.type());
  return Node(type, Unary{Unary::kDereference, std::move(pointer)});
}

Value CombinerOf(std::string function) {
  return Node(kFunctionType, Combiner{std::move(function)});
}
Value VectorOf(Type type, std::vector<Value> lanes) {
  return Node(type, ir::Make{std::move(lanes), {}});
}
Value StateLike(Value like, std::vector<Value> fields) {
  const Type type = like.type();
  return Node(type, ir::Make{std::move(fields), std::move(like)});
}
Value Choose(Value condition, Value a, Value b) {
  const Type type = a.type().IsInteger() ? Wider(a.type(), b.type()) : a.type();
  return Node(type, Select{std::move(condition), std::move(a), std::move(b)});
}

Value BinaryOf(BinaryOp op, Value a, Value b) {
  Type type = kBoolType;
  if (op == BinaryOp::kBitAnd && a.type().IsVector()) {
    type = a.type();
  } else if (!Compares(op)) {
    type = a.type().pointer ? a.type() : Wider(a.type(), b.type());
  }
  return Node(type, Binary{op, std::move(a), std::move(b)});
}

Value operator+(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kAdd, a, b); }
Value operator-(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kSub, a, b); }
Value operator*(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kMul, a, b); }
Value operator/(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kDiv, a, b); }
Value operator%(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kMod, a, b); }
Value operator<(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kLess, a, b); }
Value operator<=(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kLessEqual, a, b); }
Value operator>(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kGreater, a, b); }
Value operator>=(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kGreaterEqual, a, b); }
Value operator==(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kEqual, a, b); }
Value And(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kAnd, a, b); }
Value operator&(const Value& a, const Value& b) { return BinaryOf(BinaryOp::kBitAnd, a, b); }
Value operator-(const Value& a) { return Node(a.type(), Unary{Unary::kNegate, a}); }
Value Not(const Value& a) { return Node(kBoolType, Unary{Unary::kNot, a}); }

namespace {

// The operands of each kind of node.
struct Operands {
  const std::function<void(const Value&)>& visit;
  void One(const Value& value) const {
    if (value) visit(value);
  }
  void All(const std::vector<Value>& values) const {
    for (const Value& value : values) One(value);
  }
  void operator()(const Variable&) const {}
  void operator()(const Argument& a) const { One(a.position); }
  void operator()(const Builtin&) const {}
  void operator()(const Literal&) const {}
  void operator()(const Integer&) const {}
  void operator()(const IndexOf& index) const {
    for (const auto& [symbol, value] : index.symbols) One(value);
  }
  void operator()(const Binary& binary) const { One(binary.a), One(binary.b); }
  void operator()(const Unary& unary) const { One(unary.a); }
  void operator()(const Select& s) const { One(s.condition), One(s.a), One(s.b); }
  void operator()(const Convert& convert) const { One(convert.a); }
  void operator()(const Cast& cast) const { One(cast.a); }
  void operator()(const Reinterpret& reinterpret) const { One(reinterpret.address); }
  void operator()(const Call& call) const {
    for (const TemplateArgument& argument : call.templates) {
      if (const auto* value = std::get_if<Value>(&argument)) One(*value);
    }
    All(call.operands);
  }
  void operator()(const Member& member) const { One(member.state); }
  void operator()(const Lane& lane) const { One(lane.vector); }
  void operator()(const Element& element) const { One(element.array), One(element.index); }
  void operator()(const Combiner&) const {}
  void operator()(const ir::Make& make) const { One(make.like), All(make.parts); }
};

}  // namespace

void ForEachOperand(const Value& value, const std::function<void(const Value&)>& visit) {
  std::visit(Operands{visit}, value->node);
}

}  // namespace tensord::compiler::ir
